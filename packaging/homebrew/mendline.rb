# Formula for Homebrew on Linux. Not run by the tests of this repository. The release workflow fills in the version and
# the checksums.
class Mendline < Formula
  desc "Proxy for MCP servers that repairs broken connections"
  homepage "https://mendline.dev"
  version "@VERSION@"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on :linux

  on_intel do
    url "https://mendline.dev/download/mendline-@VERSION@-linux-x64.tar.gz"
    sha256 "@XSUM@"
  end

  on_arm do
    url "https://mendline.dev/download/mendline-@VERSION@-linux-arm64.tar.gz"
    sha256 "@ARMSUM@"
  end

  def install
    bin.install "bin/mendline"
    man1.install Dir["share/man/man1/*.1"]
    bash_completion.install "share/bash-completion/completions/mendline"
    zsh_completion.install "share/zsh/site-functions/_mendline"
    fish_completion.install "share/fish/vendor_completions.d/mendline.fish"
    doc.install Dir["share/doc/mendline/*"]
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/mendline --version")
  end
end

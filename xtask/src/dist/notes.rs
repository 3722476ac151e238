//! Release notes: the section of a version in `CHANGELOG.md`.

use super::files;
use crate::command::root;

/// Returns the notes of a version, or of the unreleased changes if it has no section yet.
pub(crate) fn of(version: &str) -> Result<String, String> {
    section(&files::read(&root().join("CHANGELOG.md"))?, version)
        .ok_or_else(|| format!("CHANGELOG.md has no section [{version}] and no section [Unreleased]; add one"))
}

/// Returns the section of a version without its heading.
fn section(changelog: &str, version: &str) -> Option<String> {
    find(changelog, version).or_else(|| find(changelog, "Unreleased"))
}

fn find(changelog: &str, name: &str) -> Option<String> {
    let heading = format!("## [{name}]");
    let mut lines = changelog.lines().skip_while(|line| !line.starts_with(&heading));
    lines.next()?;
    let body: Vec<&str> = lines.take_while(|line| !line.starts_with("## ") && !is_reference(line)).collect();
    Some(format!("{}\n", body.join("\n").trim()))
}

/// Returns whether a line is the target of a link, which stand at the end of the file.
fn is_reference(line: &str) -> bool {
    line.starts_with('[') && line.contains("]: ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGELOG: &str = "# Changelog\n\n## [Unreleased] (2.0.0)\n\n- new\n\n## [1.1.0] - 2026-01-02\n\n### Added\n- one\n\n## [1.0.0]\n\n- first\n\n[1.0.0]: https://x\n";

    #[test]
    fn section_of_a_version_ends_at_the_next() {
        assert_eq!(section(CHANGELOG, "1.1.0").as_deref(), Some("### Added\n- one\n"));
        assert_eq!(section(CHANGELOG, "1.0.0").as_deref(), Some("- first\n"));
    }

    #[test]
    fn version_without_section_has_the_unreleased_notes() {
        assert_eq!(section(CHANGELOG, "2.0.0").as_deref(), Some("- new\n"));
        assert_eq!(section("# Changelog\n", "2.0.0"), None);
    }
}

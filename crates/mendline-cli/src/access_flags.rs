//! Flags of `mendline serve` about access: hosts, proxies, TLS and tokens.

use std::path::PathBuf;

use clap::Args;
use mendline::frontend::http::Network;

/// Flags of `mendline serve` about who may use it.
#[derive(Args, Clone)]
pub(crate) struct AccessOptions {
    /// Origin of a web page that may use the gateway, such as http://localhost:6274
    #[arg(long = "origin", value_name = "ORIGIN")]
    pub(crate) origins: Vec<String>,

    /// Host name under which the gateway may be addressed, besides loopback
    #[arg(long = "host", value_name = "HOST")]
    pub(crate) hosts: Vec<String>,

    /// Address of a proxy in front of the gateway, whose Forwarded and X-Forwarded headers count
    #[arg(long = "proxy", value_name = "ADDRESS", value_parser = parse_network)]
    pub(crate) proxies: Vec<Network>,

    /// PEM file with the certificate of the gateway: serve https; read again when it changes
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_certificate: Option<PathBuf>,

    /// PEM file with the key of the certificate [default: the file of the certificate]
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub(crate) tls_key: Option<PathBuf>,

    /// Environment variable with a token that every request must have
    #[arg(long, value_name = "VARIABLE")]
    pub(crate) token_env: Option<String>,

    #[command(flatten)]
    pub(crate) stored: StoredTokenOptions,

    /// Write a line for each request to access.log in the state directory
    #[arg(long)]
    pub(crate) access_log: bool,

    /// Serve every client that reaches the address, without a token and as any user of this machine
    #[arg(long, conflicts_with_all = ["token_env", "new_token"])]
    pub(crate) danger_allow_anyone: bool,
}

/// Flags of `mendline serve` about the tokens that Mendline makes and stores.
#[derive(Args, Clone, Default)]
pub(crate) struct StoredTokenOptions {
    /// Make another token with this name, print it once, and store its hash
    #[arg(long, value_name = "NAME")]
    pub(crate) new_token: Option<String>,

    /// Servers that the new token opens, separated by commas [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "new_token")]
    pub(crate) token_servers: Vec<String>,

    /// Patterns of tools that the new token may use, such as 'read_*,list_*' [default: all]
    #[arg(long, value_name = "PATTERNS", value_delimiter = ',', requires = "new_token")]
    pub(crate) token_tools: Vec<String>,

    /// End of the new token: a date such as 2027-01-31, or a time from now such as 30d [default: never]
    #[arg(long, value_name = "TIME", requires = "new_token")]
    pub(crate) token_expires: Option<String>,

    /// Print the stored tokens with what they open, and exit
    #[arg(long, conflicts_with_all = ["new_token", "revoke_token"])]
    pub(crate) list_tokens: bool,

    /// Delete the stored token with this name, and exit; running gateways refuse it from then on
    #[arg(long, value_name = "NAME", conflicts_with = "new_token")]
    pub(crate) revoke_token: Option<String>,
}

fn parse_network(text: &str) -> Result<Network, String> {
    text.parse().map_err(|_| "not an address or a range of addresses, such as 127.0.0.1 or 10.0.0.0/8".to_owned())
}

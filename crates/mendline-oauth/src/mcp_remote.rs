//! Tokens of mcp-remote, which are used as long as they are valid.
//!
//! mcp-remote keeps them in `~/.mcp-auth/mcp-remote-<version>/<MD5 of the URL>_tokens.json`. They are only read: its
//! refresh token belongs to its own processes.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use mendline::decisions::Secret;

use crate::md5::md5;
use crate::metadata::{object, text};

/// The time for which a token must be valid to be used.
const MARGIN: Duration = Duration::from_secs(60);

/// The largest file in bytes.
const MAX_BYTES: u64 = 256 * 1024;

/// The most versions of mcp-remote whose folders are read.
const MAX_FOLDERS: usize = 100;

/// A token of mcp-remote.
#[derive(Debug, PartialEq)]
pub(crate) struct Found {
    pub(crate) access_token: Secret,
    pub(crate) expires_at: Option<SystemTime>,
}

/// Returns the newest valid token for a server.
pub(crate) fn token(mcp_auth: &Path, server: &str, now: SystemTime) -> Option<Found> {
    let name = format!("{}_tokens.json", md5(server.as_bytes()));
    let entries = fs::read_dir(mcp_auth).ok()?.filter_map(Result::ok).take(MAX_FOLDERS);
    let folders = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("mcp-remote-"));
    let found = folders.filter_map(|folder| read(folder.path().join(&name)));
    let (found, _) = found.max_by_key(|(_, modified)| *modified)?;
    match found.expires_at {
        Some(at) if at <= now + MARGIN => None,
        _ => Some(found),
    }
}

/// Reads a file. Its expiry counts from its last change, which is when mcp-remote received the token.
fn read(path: PathBuf) -> Option<(Found, SystemTime)> {
    let metadata = fs::metadata(&path).ok()?;
    if !metadata.is_file() || metadata.len() > MAX_BYTES {
        return None;
    }
    let modified = metadata.modified().ok()?;
    let object = object(&fs::read_to_string(path).ok()?)?;
    let seconds = object.get("expires_in").and_then(serde_json::Value::as_f64).filter(|it| (0.0..1e10).contains(it));
    let expires_at = seconds.map(|seconds| modified + Duration::from_secs_f64(seconds));
    Some((Found { access_token: Secret::new(text(&object, "access_token")?), expires_at }, modified))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_token_of_mcp_remote_is_found() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("mcp-remote-0.1.29");
        fs::create_dir(&folder).unwrap();
        let url = "https://mcp.example/sse";
        let file = folder.join(format!("{}_tokens.json", md5(url.as_bytes())));
        fs::write(&file, r#"{"access_token":"theirs","expires_in":3600,"refresh_token":"r"}"#).unwrap();
        let now = SystemTime::now();
        assert_eq!(token(home.path(), url, now).unwrap().access_token, Secret::new("theirs"));
        assert_eq!(token(home.path(), "https://other.example", now), None);
        assert_eq!(token(home.path(), url, now + Duration::from_secs(3600)), None, "expired");
        fs::write(&file, "<html>").unwrap();
        assert_eq!(token(home.path(), url, now), None);
        assert_eq!(token(&home.path().join("missing"), url, now), None);
    }
}

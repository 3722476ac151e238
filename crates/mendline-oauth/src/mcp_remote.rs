//! Tokens of mcp-remote, which are used as long as they are valid.
//!
//! mcp-remote keeps them in `~/.mcp-auth/mcp-remote-<version>/<hash>_tokens.json`. The hash is the MD5 of the URL and of
//! what else makes a login different: the resource, further parameters of the authorization request, headers, the URL of
//! the client metadata document and the token endpoint, as far as they are set, joined by `|`. Early versions hash the
//! URL alone. The files are only read: the refresh token belongs to the processes of mcp-remote.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use mendline::decisions::Secret;

use crate::md5::md5;
use crate::metadata::{object, text};
use crate::settings::{ResourceSetting, Settings};

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
    pub(crate) id_token: Option<Secret>,
    pub(crate) expires_at: Option<SystemTime>,
}

/// The tokens of mcp-remote for one server.
#[derive(Clone, Debug)]
pub(crate) struct McpRemote {
    /// Its directory, usually `~/.mcp-auth`.
    pub(crate) directory: PathBuf,
    /// The headers of requests to the server, which mcp-remote hashes.
    pub(crate) headers: Vec<(String, Secret)>,
}

impl McpRemote {
    /// Returns the newest valid token for a server.
    pub(crate) fn token(&self, settings: &Settings, now: SystemTime) -> Option<Found> {
        let hashes = [self.hash(settings), md5(settings.server.as_bytes())];
        newest(&self.directory, &hashes, now)
    }

    /// Returns the hash of current versions.
    fn hash(&self, settings: &Settings) -> String {
        let mut parts = vec![settings.server.clone()];
        if let ResourceSetting::Fixed(resource) = &settings.resource {
            parts.push(resource.clone());
        }
        let object = |members: BTreeMap<&str, &str>| serde_json::to_string(&members).ok();
        let parameters: BTreeMap<_, _> =
            settings.parameters.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let headers: BTreeMap<_, _> =
            self.headers.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
        parts.extend([parameters, headers].into_iter().filter(|members| !members.is_empty()).filter_map(object));
        parts.extend(settings.client_metadata_url.clone());
        parts.extend(settings.token_endpoint.clone());
        md5(parts.join("|").as_bytes())
    }
}

/// Returns the newest valid token with the first hash; in the folder of an early version, also with the second one.
fn newest(mcp_auth: &Path, [hash, of_url]: &[String; 2], now: SystemTime) -> Option<Found> {
    let entries = fs::read_dir(mcp_auth).ok()?.filter_map(Result::ok).take(MAX_FOLDERS);
    let found = entries.filter_map(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let version = name.strip_prefix("mcp-remote-")?;
        let file = |hash: &str| read(entry.path().join(format!("{hash}_tokens.json")));
        file(hash).or_else(|| if version.starts_with("0.") { file(of_url) } else { None })
    });
    let (found, _) = found.max_by_key(|(_, modified)| *modified)?;
    match found.expires_at {
        Some(at) if at <= now + MARGIN => None,
        _ => Some(found),
    }
}

/// Reads a file. Without an absolute expiry, the lifetime counts from its last change, which is when mcp-remote received
/// the token.
fn read(path: PathBuf) -> Option<(Found, SystemTime)> {
    let metadata = fs::metadata(&path).ok()?;
    if !metadata.is_file() || metadata.len() > MAX_BYTES {
        return None;
    }
    let modified = metadata.modified().ok()?;
    let object = object(&fs::read_to_string(path).ok()?)?;
    let number = |name: &str, most: f64| {
        object.get(name).and_then(serde_json::Value::as_f64).filter(|number| (0.0..most).contains(number))
    };
    let absolute =
        number("expires_at", 1e13).map(|millis| SystemTime::UNIX_EPOCH + Duration::from_secs_f64(millis / 1e3));
    let relative = number("expires_in", 1e10).map(|seconds| modified + Duration::from_secs_f64(seconds));
    let id_token = text(&object, "id_token").map(Secret::new);
    let access_token = Secret::new(text(&object, "access_token")?);
    Some((Found { access_token, id_token, expires_at: absolute.or(relative) }, modified))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(home: &Path, headers: &[(&str, &str)]) -> McpRemote {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), Secret::new(*value))).collect();
        McpRemote { directory: home.to_owned(), headers }
    }

    fn write(home: &Path, version: &str, hashed: &str, content: &str) -> PathBuf {
        let folder = home.join(format!("mcp-remote-{version}"));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join(format!("{}_tokens.json", md5(hashed.as_bytes())));
        fs::write(&file, content).unwrap();
        file
    }

    const URL: &str = "https://mcp.example/sse";

    #[test]
    fn valid_token_of_mcp_remote_is_found() {
        let home = tempfile::tempdir().unwrap();
        let file =
            write(home.path(), "0.1.29", URL, r#"{"access_token":"theirs","expires_in":3600,"refresh_token":"r"}"#);
        let now = SystemTime::now();
        let remote = remote(home.path(), &[]);
        let settings = Settings::new(URL);
        assert_eq!(remote.token(&settings, now).unwrap().access_token, Secret::new("theirs"));
        assert_eq!(remote.token(&Settings::new("https://other.example"), now), None);
        assert_eq!(remote.token(&settings, now + Duration::from_secs(3600)), None, "expired");
        fs::write(&file, "<html>").unwrap();
        assert_eq!(remote.token(&settings, now), None);
        assert_eq!(self::remote(&home.path().join("missing"), &[]).token(&settings, now), None);
    }

    #[test]
    fn token_is_found_by_all_that_mcp_remote_hashes() {
        let home = tempfile::tempdir().unwrap();
        let hashed = [
            URL,
            "https://mcp.example",
            r#"{"audience":"api","prompt":"none"}"#,
            r#"{"X-A":"1","X-Region":"eu \"1\""}"#,
            "https://me.example/client.json",
        ]
        .join("|");
        write(home.path(), "v1", &hashed, r#"{"access_token":"theirs"}"#);
        let mut settings = Settings::new(URL);
        settings.resource = ResourceSetting::Fixed("https://mcp.example".to_owned());
        settings.parameters =
            [("prompt", "none"), ("audience", "api")].map(|(a, b)| (a.to_owned(), b.to_owned())).into();
        settings.client_metadata_url = Some("https://me.example/client.json".to_owned());
        let now = SystemTime::now();
        let with = remote(home.path(), &[("X-Region", r#"eu "1""#), ("X-A", "1")]);
        assert!(with.token(&settings, now).is_some());
        assert_eq!(remote(home.path(), &[("X-Region", "us")]).token(&settings, now), None, "another tenant");
    }

    #[test]
    fn file_of_a_current_version_is_not_found_by_its_url_alone() {
        let home = tempfile::tempdir().unwrap();
        write(home.path(), "v1", URL, r#"{"access_token":"theirs"}"#);
        let now = SystemTime::now();
        assert!(remote(home.path(), &[]).token(&Settings::new(URL), now).is_some());
        assert_eq!(remote(home.path(), &[("X-Region", "eu")]).token(&Settings::new(URL), now), None);
    }

    #[test]
    fn absolute_expiry_outweighs_the_time_of_the_file() {
        let home = tempfile::tempdir().unwrap();
        write(home.path(), "v1", URL, r#"{"access_token":"a","expires_in":3600,"expires_at":1000}"#);
        assert_eq!(remote(home.path(), &[]).token(&Settings::new(URL), SystemTime::now()), None);
    }
}

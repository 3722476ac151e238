//! Tokens that Mendline made for the gateway, in a file of the state directory.
//!
//! The file holds names and hashes, never a token. It is for its owner alone: a process that can write to it can open the
//! gateway.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mendline_core::policy::tool_filter::ToolFilter;
use serde::{Deserialize, Serialize};

use super::token::{AccessToken, TokenHash, generate};
use crate::os::files::{check_owner, new_private_file};
use crate::state::own_folder;

/// The name of the file in the state directory.
const FILE: &str = "gateway-tokens.json";

/// The limit of stored tokens.
const LIMIT: usize = 1000;

#[derive(Debug, Default, Serialize, Deserialize)]
struct Stored {
    tokens: Vec<StoredToken>,
}

/// A stored token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredToken {
    /// Its name.
    pub name: String,
    /// The hash of the token.
    hash: String,
    /// What it opens, and for how long.
    #[serde(flatten)]
    pub rights: TokenRights,
}

/// What a stored token opens, and for how long.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRights {
    /// The servers; all if there is no list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub servers: Option<Vec<String>>,
    /// Patterns of the tools; all if there is no list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Its end, in seconds since 1970; never if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
}

impl TokenRights {
    /// The time of its end.
    pub fn end(&self) -> Option<SystemTime> {
        self.expires.and_then(|seconds| UNIX_EPOCH.checked_add(Duration::from_secs(seconds)))
    }

    fn apply(&self, token: &mut AccessToken) {
        token.servers.clone_from(&self.servers);
        token.tools = ToolFilter::new(self.tools.as_deref(), &[]);
        token.expires = self.end();
    }
}

/// A token that was just made. It is shown once.
#[derive(Debug)]
pub struct NewToken {
    /// The token.
    pub token: String,
    /// Its stored form.
    pub stored: AccessToken,
}

/// Returns the path of the file.
pub fn path(state: &Path) -> PathBuf {
    state.join(FILE)
}

/// Reads the stored tokens.
pub fn read(state: &Path) -> io::Result<Vec<AccessToken>> {
    read_stored(state)?.tokens.iter().map(|stored| loaded(state, stored)).collect()
}

/// Reads the stored tokens as they are stored, for the operator.
pub fn list(state: &Path) -> io::Result<Vec<StoredToken>> {
    Ok(read_stored(state)?.tokens)
}

/// Removes a token. Returns whether there was one of this name.
pub fn remove(state: &Path, name: &str) -> io::Result<bool> {
    let mut all = read_stored(state)?;
    let before = all.tokens.len();
    all.tokens.retain(|token| token.name != name);
    if all.tokens.len() == before {
        return Ok(false);
    }
    write(state, &all)?;
    Ok(true)
}

/// Makes a token and stores its hash. A token of the same name is replaced.
pub fn add(state: &Path, name: &str, rights: TokenRights) -> io::Result<NewToken> {
    own_folder(state)?;
    let mut all = read_stored(state)?;
    let mut made = make(name)?;
    rights.apply(&mut made.stored);
    all.tokens.retain(|token| token.name != name);
    if all.tokens.len() >= LIMIT {
        return Err(problem(state, &format!("has {LIMIT} tokens, which is the limit")));
    }
    all.tokens.push(StoredToken { name: name.to_owned(), hash: made.stored.hash.to_string(), rights });
    write(state, &all)?;
    Ok(made)
}

/// Makes a token without storing it.
pub fn make(name: &str) -> io::Result<NewToken> {
    let token = generate().ok_or_else(|| io::Error::other("the system has no random numbers"))?;
    let stored = AccessToken::new(name, TokenHash::of(&token));
    Ok(NewToken { token, stored })
}

fn loaded(state: &Path, stored: &StoredToken) -> io::Result<AccessToken> {
    let hash =
        stored.hash.parse().map_err(|_| problem(state, &format!("has no hash of the token {:?}", stored.name)))?;
    let mut token = AccessToken::new(&stored.name, hash);
    stored.rights.apply(&mut token);
    Ok(token)
}

fn read_stored(state: &Path) -> io::Result<Stored> {
    let path = path(state);
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Stored::default()),
        Err(error) => return Err(problem(state, &format!("cannot be read ({error})"))),
    };
    check_owner(&fs::metadata(&path)?).map_err(|why| problem(state, &why.to_string()))?;
    serde_json::from_slice(&text).map_err(|error| problem(state, &format!("cannot be understood ({error})")))
}

fn write(state: &Path, all: &Stored) -> io::Result<()> {
    let path = path(state);
    let own = state.join(format!("{FILE}.{}", std::process::id()));
    let _ = fs::remove_file(&own);
    let mut file = new_private_file().write(true).open(&own)?;
    file.write_all(&serde_json::to_vec_pretty(all)?)?;
    file.sync_all()?;
    fs::rename(&own, &path)
}

fn problem(state: &Path, what: &str) -> io::Error {
    io::Error::other(format!("{} {what}; delete it to begin with a new token", path(state).display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_token_is_found_by_its_hash_and_not_readable() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        assert!(read(&state).unwrap().is_empty());
        let first = add(&state, "first", TokenRights::default()).unwrap();
        let second = add(&state, "second", TokenRights::default()).unwrap();
        let names: Vec<_> = read(&state).unwrap().into_iter().map(|token| (token.name, token.hash)).collect();
        let expected = [("first", &first), ("second", &second)];
        assert_eq!(names, expected.map(|(name, made)| (name.to_owned(), TokenHash::of(&made.token))));
        let text = fs::read_to_string(path(&state)).unwrap();
        assert!(!text.contains(&first.token) && !text.contains(&second.token));
        assert_eq!(fs::read_dir(&state).unwrap().count(), 1, "no other file is left");
    }

    #[test]
    fn token_of_the_same_name_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let old = add(&state, "ci", TokenRights::default()).unwrap();
        let new = add(&state, "ci", TokenRights::default()).unwrap();
        let hashes: Vec<_> = read(&state).unwrap().iter().map(|token| token.hash).collect();
        assert_eq!(hashes, [new.stored.hash]);
        assert_ne!(old.token, new.token);
    }

    #[test]
    fn rights_of_a_token_are_stored_and_a_removed_one_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let (servers, tools) = (Some(vec!["notes".to_owned()]), Some(vec!["read_*".to_owned()]));
        let rights = TokenRights { servers, tools, expires: Some(1_800_000_000) };
        add(&state, "ci", rights.clone()).unwrap();
        let token = read(&state).unwrap().pop().unwrap();
        assert_eq!((token.servers, token.expires), (rights.servers.clone(), rights.end()));
        assert!(token.tools.allows("read_note") && !token.tools.allows("write_note"));
        assert!(remove(&state, "ci").unwrap() && !remove(&state, "ci").unwrap());
        assert!(read(&state).unwrap().is_empty());
    }

    #[test]
    fn damaged_file_is_named_with_the_way_out() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        add(&state, "ci", TokenRights::default()).unwrap();
        for text in ["", "{", r#"{"tokens":[{"name":"x","hash":"md5:1"}]}"#] {
            fs::write(path(&state), text).unwrap();
            let error = read(&state).unwrap_err().to_string();
            assert!(error.contains("gateway-tokens.json") && error.contains("delete it"), "{error}");
        }
    }
}

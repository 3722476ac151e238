//! The key of the session ids, in a file.
//!
//! Every gateway of a user has the same key, so that a restarted one opens the ids of the last.

use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;

use super::session_id::{KEY_LEN, Sealer};
use crate::os::files::new_private_file;
use crate::state::own_folder;

/// The name of the file in the state directory.
const FILE: &str = "gateway.key";

/// Reads the key, or creates it.
pub fn read_or_create(state: &Path) -> io::Result<[u8; KEY_LEN]> {
    own_folder(state)?;
    let path = state.join(FILE);
    if let Some(key) = read(&path)? {
        return Ok(key);
    }
    let key = Sealer::generate_key().ok_or_else(|| io::Error::other("the system has no random numbers"))?;
    // Two gateways that start together agree on one key: the one whose link is made first.
    let own = state.join(format!("{FILE}.{}", std::process::id()));
    let _ = fs::remove_file(&own);
    let mut file = new_private_file().write(true).open(&own)?;
    file.write_all(&key)?;
    file.sync_all()?;
    let linked = fs::hard_link(&own, &path);
    fs::remove_file(&own)?;
    match linked {
        Ok(()) => Ok(key),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            read(&path)?.ok_or_else(|| io::Error::other(format!("{} is no key; delete it", path.display())))
        }
        Err(error) => Err(error),
    }
}

fn read(path: &Path) -> io::Result<Option<[u8; KEY_LEN]>> {
    let mut key = [0; KEY_LEN];
    match fs::File::open(path) {
        Ok(mut file) => match file.read_exact(&mut key) {
            Ok(()) => Ok(Some(key)),
            Err(_) => Err(io::Error::other(format!("{} is no key; delete it", path.display()))),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn created_key_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let key = read_or_create(&state).unwrap();
        assert_eq!(read_or_create(&state).unwrap(), key);
        assert_eq!(fs::read_dir(&state).unwrap().count(), 1, "no other file is left");
    }

    #[test]
    fn file_that_is_no_key_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        read_or_create(&state).unwrap();
        fs::write(state.join(FILE), "short").unwrap();
        assert!(read_or_create(&state).unwrap_err().to_string().contains("gateway.key is no key; delete it"));
    }
}

//! A credential from a file.
//!
//! The file is read again when it changes: it is compared every two seconds, which also works on network file systems
//! and through the links of mounted secrets. A file that belongs to this user must not be readable by others.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mendline_core::reason::CredentialError;

use super::{Credential, CredentialSource, HeaderForm, Occasion, SourceFuture};
use crate::os::files::{self, Exposure, Stamp};

/// The time between two comparisons.
const INTERVAL: Duration = Duration::from_secs(2);
/// The longest file.
const MAX_BYTES: u64 = 64 * 1024;

/// A token in a file.
#[derive(Debug)]
pub struct FileSource {
    path: PathBuf,
    form: HeaderForm,
    /// The stamp of the file when it was last read; `None` if it could not be opened.
    stamp: Option<Stamp>,
}

impl FileSource {
    /// Creates a source that reads this file.
    pub fn new(path: impl Into<PathBuf>, form: HeaderForm) -> FileSource {
        FileSource { path: path.into(), form, stamp: None }
    }
}

impl CredentialSource for FileSource {
    fn read<'a>(&'a mut self, _: &'a Occasion) -> SourceFuture<'a, Result<Option<Credential>, CredentialError>> {
        Box::pin(async {
            let (path, form) = (self.path.clone(), self.form.clone());
            let (stamp, read) = blocking(move || read(&path, &form)).await;
            self.stamp = stamp;
            let path = || self.path.display().to_string();
            read.map(Some).map_err(|why| CredentialError::File { path: path(), why })
        })
    }

    fn changed(&mut self) -> SourceFuture<'_, ()> {
        Box::pin(async {
            loop {
                let path = self.path.clone();
                let now = blocking(move || std::fs::metadata(path).ok().map(|metadata| files::stamp(&metadata))).await;
                if now != self.stamp {
                    // A missing file is noticed once.
                    self.stamp = now;
                    return;
                }
                tokio::time::sleep(INTERVAL).await;
            }
        })
    }
}

/// Runs file system operations, which may block for long on a network.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        // The runtime is shutting down, and this task with it.
        Err(_) => std::future::pending().await,
    }
}

/// Reads a file. Returns its stamp from before, so that a later change is noticed.
fn read(path: &Path, form: &HeaderForm) -> (Option<Stamp>, Result<Credential, String>) {
    let file = match files::open_without_waiting(path) {
        Ok(file) => file,
        Err(error) => return (None, Err(open_error(&error))),
    };
    let metadata = match file.metadata() {
        Ok(metadata) => metadata,
        Err(error) => return (None, Err(error.to_string())),
    };
    let stamp = Some(files::stamp(&metadata));
    if !metadata.is_file() {
        return (stamp, Err("it is not a file".to_owned()));
    }
    if let Some(Exposure::OpenToOthers { .. }) = files::exposure(&metadata)
        && files::is_readable_by_others(&metadata)
    {
        let why = format!("other users can read it; run: chmod 600 {}", quoted(path));
        return (stamp, Err(why));
    }
    let mut text = Vec::new();
    let read = match file.take(MAX_BYTES + 1).read_to_end(&mut text) {
        Err(error) => Err(error.to_string()),
        Ok(_) if text.len() as u64 > MAX_BYTES => Err(format!("it is longer than {} KiB", MAX_BYTES / 1024)),
        Ok(_) => match std::str::from_utf8(&text) {
            Ok(text) => form.read(text).map_err(|why| why.to_string()),
            Err(_) => Err("it is not text in UTF-8".to_owned()),
        },
    };
    text.fill(0);
    (stamp, read)
}

fn open_error(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such file".to_owned(),
        io::ErrorKind::PermissionDenied => "this user may not read it".to_owned(),
        _ => error.to_string(),
    }
}

/// Returns a path as one word of a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use mendline_core::Secret;

    use super::*;

    struct Folder(tempfile::TempDir);

    impl Folder {
        fn path(&self) -> PathBuf {
            self.0.path().join("token")
        }

        fn write(&self, text: impl AsRef<[u8]>) {
            let new = self.0.path().join("new");
            fs::write(&new, text).unwrap();
            files::make_private(&new).unwrap();
            fs::rename(new, self.path()).unwrap();
        }
    }

    fn folder() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    async fn text(source: &mut FileSource) -> Result<String, String> {
        match source.read(&Occasion::Start).await {
            Ok(credential) => Ok(credential.unwrap().headers[0].1.expose().to_owned()),
            Err(CredentialError::File { path, why }) => {
                assert_eq!(path, source.path.display().to_string());
                Err(why)
            }
            Err(other) => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn file_gives_its_token() {
        let folder = folder();
        let mut source = FileSource::new(folder.path(), HeaderForm::default());
        assert_eq!(text(&mut source).await, Err("there is no such file".to_owned()));
        folder.write("hunter2\n");
        assert_eq!(text(&mut source).await.as_deref(), Ok("Bearer hunter2"));
        assert!(!format!("{source:?} {:?}", source.read(&Occasion::Changed).await).contains("hunter2"));
    }

    #[tokio::test]
    async fn unusable_files_are_refused_with_reason() {
        let folder = folder();
        let mut source = FileSource::new(folder.path(), HeaderForm::default());
        for (bytes, why) in [
            (&b""[..], "it is empty"),
            (b"a\nb\n", "it has more than one line; a token is one line"),
            (b"\xff\xfe", "it is not text in UTF-8"),
            (&[b'x'; 65 * 1024], "it is longer than 64 KiB"),
        ] {
            folder.write(bytes);
            assert_eq!(text(&mut source).await, Err(why.to_owned()));
        }
        let mut source = FileSource::new(folder.0.path(), HeaderForm::default());
        assert_eq!(text(&mut source).await, Err("it is not a file".to_owned()));
    }

    #[tokio::test]
    async fn readable_file_of_this_user_is_refused_with_chmod() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = folder();
        folder.write("hunter2");
        let mut source = FileSource::new(folder.path(), HeaderForm::default());
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o644)).unwrap();
        let expected = format!("other users can read it; run: chmod 600 '{}'", folder.path().display());
        assert_eq!(text(&mut source).await, Err(expected));
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o600)).unwrap();
        source.changed().await;
        assert_eq!(text(&mut source).await.as_deref(), Ok("Bearer hunter2"));
    }

    #[tokio::test]
    async fn replaced_removed_and_new_file_is_a_change() {
        let folder = folder();
        folder.write("one");
        let mut source = FileSource::new(folder.path(), HeaderForm::default());
        assert_eq!(text(&mut source).await.as_deref(), Ok("Bearer one"));
        folder.write("two");
        source.changed().await;
        assert_eq!(text(&mut source).await.as_deref(), Ok("Bearer two"));
        let early = tokio::time::timeout(Duration::from_millis(20), source.changed()).await;
        assert!(early.is_err(), "nothing has changed");
        fs::remove_file(folder.path()).unwrap();
        source.changed().await;
        assert!(text(&mut source).await.is_err());
        folder.write("two");
        source.changed().await;
        let credential = source.read(&Occasion::Changed).await.unwrap().unwrap();
        assert_eq!(credential, Credential::bearer(&Secret::new("two")));
    }

    #[test]
    fn path_is_quoted_for_a_shell() {
        assert_eq!(quoted(Path::new("/a b/it's")), r"'/a b/it'\''s'");
    }
}

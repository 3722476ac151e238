//! A scratch folder for measurements with one binary of Mendline.

use std::fs;
use std::io;
use std::path::Path;

/// The `initialize` request of a client.
pub(crate) const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;

/// Runs a measurement with the binary of `--mendline` and a folder that is removed afterwards.
pub(crate) fn in_scratch_folder<T>(
    args: &[String],
    measure: impl FnOnce(&Path, &Path) -> io::Result<T>,
) -> Result<T, String> {
    let at = args.iter().position(|arg| arg == "--mendline");
    let mendline = at.and_then(|at| args.get(at + 1)).ok_or("`--mendline PATH` is missing")?;
    let folder = std::env::temp_dir().join(format!("mendline-bench-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let measured = measure(Path::new(mendline), &folder);
    let _ = fs::remove_dir_all(&folder);
    measured.map_err(|error| error.to_string())
}

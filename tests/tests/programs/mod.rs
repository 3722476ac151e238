//! The paths of the programs of this workspace. Only a test knows them, so it passes them to the library.

use std::path::{Path, PathBuf};

use mendline_peers::stage::Programs;

/// Returns the programs that cargo has built for this test. `mendline` and the fault server are beside them, or
/// `mendline` is at `MENDLINE_BIN`.
pub fn built() -> Programs {
    let tap = Path::new(env!("CARGO_BIN_EXE_tap"));
    let beside = tap.with_file_name("mendline");
    let mendline = std::env::var_os("MENDLINE_BIN").map_or(beside, PathBuf::from);
    Programs {
        tap: tap.into(),
        rmcp_client: env!("CARGO_BIN_EXE_rmcp_client").into(),
        mendline,
        faults: tap.with_file_name("mendline-faults"),
    }
}

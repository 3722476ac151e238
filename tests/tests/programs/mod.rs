//! Where the programs of this workspace are. Only a test knows, so the library has to be told.

use std::path::{Path, PathBuf};

use mendline_peers::stage::Programs;

/// The programs that cargo has built for this test; `mendline` and the fault server beside them, or `mendline` where
/// `MENDLINE_BIN` says.
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

//! Error codes of JSON-RPC and MCP, and the owners of the ranges.
//!
//! Revision 2026-07-28 defines the ranges: JSON-RPC keeps -32768 to -32000, of which -32099 to -32020 belong to MCP,
//! and -32019 to -32000 have no defined meaning. The codes of Mendline are outside of these ranges, so that its errors
//! cannot be confused with those of a server.

/// The text is not JSON.
pub const PARSE_ERROR: i64 = -32700;
/// JSON, but not a request.
pub const INVALID_REQUEST: i64 = -32600;
/// No such method.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// Invalid parameters; MCP also uses it for an unknown tool, prompt, cursor, task and (2026-07-28) resource.
pub const INVALID_PARAMS: i64 = -32602;
/// Internal error of the receiver.
pub const INTERNAL_ERROR: i64 = -32603;

/// No such resource, up to 2025-11-25.
pub const RESOURCE_NOT_FOUND: i64 = -32002;
/// A header does not match the body (2026-07-28).
pub const HEADER_MISMATCH: i64 = -32020;
/// The client lacks a capability that the request needs (2026-07-28).
pub const MISSING_CLIENT_CAPABILITY: i64 = -32021;
/// The server does not speak this revision (2026-07-28).
pub const UNSUPPORTED_PROTOCOL_VERSION: i64 = -32022;
/// The user has to visit a page first (2025-11-25 only).
pub const URL_ELICITATION_REQUIRED: i64 = -32042;

/// The owner of a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// Defined or reserved by JSON-RPC.
    JsonRpc,
    /// Defined by MCP, or reserved for it.
    Mcp,
    /// No defined meaning; servers use these codes for anything.
    NoMeaning,
    /// Free for applications.
    Application,
}

/// Returns the owner of a code.
pub fn owner(code: i64) -> Owner {
    match code {
        RESOURCE_NOT_FOUND => Owner::Mcp,
        -32019..=-32000 => Owner::NoMeaning,
        -32099..=-32020 => Owner::Mcp,
        -32768..=-32100 => Owner::JsonRpc,
        _ => Owner::Application,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_one_owner() {
        for (code, whose) in [
            (PARSE_ERROR, Owner::JsonRpc),
            (INTERNAL_ERROR, Owner::JsonRpc),
            (-32768, Owner::JsonRpc),
            (-32100, Owner::JsonRpc),
            (-32099, Owner::Mcp),
            (HEADER_MISMATCH, Owner::Mcp),
            (-32019, Owner::NoMeaning),
            (RESOURCE_NOT_FOUND, Owner::Mcp),
            (-32000, Owner::NoMeaning),
            (-31999, Owner::Application),
            (-31001, Owner::Application),
            (-32769, Owner::Application),
            (1, Owner::Application),
        ] {
            assert_eq!(owner(code), whose, "{code}");
        }
    }
}

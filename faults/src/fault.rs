//! The faults of the server, one file each, named after their rows in the fault matrix.
//!
//! A fault answers one request instead of the server. It defines which requests it applies to, whether the tool runs
//! before it answers, and the meaning of the `value` of a [`Rule`](crate::Rule). A rule that names a method, a tool or
//! an HTTP method applies the fault to those requests instead.

mod context;

mod a73_token_expired_401;
mod bom_json;
mod content_coding;
mod endpoint_elsewhere;
mod h26_500;
mod h27_502;
mod h28_503_retry_after;
mod h29_504;
mod h30_429_retry_after;
mod h31_429_bare;
mod h32_h2_goaway;
mod h33_h2_refused_stream;
mod h34_404_session_expired;
mod h35_404_method_not_found;
mod h35b_400_session_lost;
mod h36_400_header_mismatch;
mod h37_html_instead_of_json;
mod h38_redirect_same_origin;
mod h39_redirect_elsewhere;
mod h40_405_on_get;
mod h41_202_but_no_answer;
mod http_1_0;
mod m62_unknown_id;
mod m63_duplicate_response;
mod m64_late_response;
mod m65_malformed_json;
mod m66_id_type_changed;
mod m67_notification_storm;
mod m68_progress_forever;
mod m69_era_flip;
mod m72_list_hangs;
mod newline_after;
mod notification_answered;
mod only_handshake_at_sse_url;
mod pretty_json;
mod s42_sse_split_crlf_bom;
mod s43_event_over_limit;
mod s44_comments_only;
mod s45_retry_absurd;
mod s46_replays_seen_events;
mod s47_resume_refused;
mod s52_prime_then_close_for_ever;
mod server_request_flood;
mod session_lost_in_body;
mod t13_reset_before_headers;
mod t14_reset_mid_body;
mod t15_eof_without_response;
mod truncated_json;
mod wrong_content_type;

use std::pin::Pin;

pub(crate) use context::FaultContext;

use crate::HttpRequest;
use crate::server::reply::Reply;
use crate::server::state::Refused;

/// A pending reply. `Err` is the reply of the protocol's own checks, which run before the fault.
type Answering = Pin<Box<dyn Future<Output = Result<Reply, Refused>> + Send>>;

/// One fault.
#[derive(Debug)]
pub struct Fault {
    /// The name of the fault and of its file.
    pub name: &'static str,
    /// The row in the fault matrix; empty if the fault has none.
    pub row: &'static str,
    /// One sentence about the behaviour.
    pub description: &'static str,
    /// The meaning of a rule's `value`; empty if the fault ignores it.
    pub value: &'static str,
    /// The condition under which the tool runs before the fault answers.
    pub runs: Runs,
    pub(crate) applies_to: fn(&HttpRequest) -> bool,
    pub(crate) answer: fn(FaultContext) -> Answering,
}

/// The condition under which the tool runs before a fault answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    /// Never: the fault refuses the request.
    Never,
    /// Defined by the rule: [`Timing::Before`](crate::Timing) or [`Timing::After`](crate::Timing).
    PerRule,
    /// Always: the fault modifies the real answer.
    Always,
}

/// All faults.
pub const ALL: &[&Fault] = &[
    &h26_500::FAULT,
    &h27_502::FAULT,
    &h28_503_retry_after::FAULT,
    &h29_504::FAULT,
    &h30_429_retry_after::FAULT,
    &h31_429_bare::FAULT,
    &h32_h2_goaway::FAULT,
    &h33_h2_refused_stream::FAULT,
    &h34_404_session_expired::FAULT,
    &h35_404_method_not_found::FAULT,
    &h35b_400_session_lost::FAULT,
    &session_lost_in_body::FAULT,
    &h36_400_header_mismatch::FAULT,
    &h37_html_instead_of_json::FAULT,
    &h38_redirect_same_origin::FAULT,
    &h39_redirect_elsewhere::FAULT,
    &h40_405_on_get::FAULT,
    &h41_202_but_no_answer::FAULT,
    &s42_sse_split_crlf_bom::FAULT,
    &s43_event_over_limit::FAULT,
    &s44_comments_only::FAULT,
    &s45_retry_absurd::FAULT,
    &s46_replays_seen_events::FAULT,
    &s47_resume_refused::FAULT,
    &s52_prime_then_close_for_ever::FAULT,
    &t13_reset_before_headers::FAULT,
    &t14_reset_mid_body::FAULT,
    &t15_eof_without_response::FAULT,
    &truncated_json::FAULT,
    &wrong_content_type::FAULT,
    &endpoint_elsewhere::FAULT,
    &only_handshake_at_sse_url::FAULT,
    &m62_unknown_id::FAULT,
    &m63_duplicate_response::FAULT,
    &m64_late_response::FAULT,
    &m65_malformed_json::FAULT,
    &m66_id_type_changed::FAULT,
    &m67_notification_storm::FAULT,
    &m68_progress_forever::FAULT,
    &m69_era_flip::FAULT,
    &m72_list_hangs::FAULT,
    &a73_token_expired_401::FAULT,
    &pretty_json::FAULT,
    &newline_after::FAULT,
    &bom_json::FAULT,
    &content_coding::FAULT,
    &http_1_0::FAULT,
    &notification_answered::FAULT,
    &server_request_flood::FAULT,
];

/// Returns the fault with this name.
pub fn by_name(name: &str) -> Option<&'static Fault> {
    ALL.iter().copied().find(|fault| fault.name == name)
}

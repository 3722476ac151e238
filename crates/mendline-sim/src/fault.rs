//! The faults, one file each, named after their rows in the fault matrix.
//!
//! A fault affects one upstream or its client. It changes a setting of
//! [`ServerFaults`](crate::server_faults::ServerFaults) or [`NetworkFaults`](crate::network_faults::NetworkFaults), or
//! acts once or repeatedly. At its end everything is restored, unless the fault says otherwise. A fault accesses the
//! world and never the engine.

mod a73_token_expired_401;
mod a74_expires_mid_stream;
mod a75_login_ended;
mod a75_refresh_down;
mod a77_401_with_fresh_token;
mod a78_403_scope;
mod a80_credential_command_hangs;
mod by_hand_isolate;
mod by_hand_reconnect;
mod c86_leaves_mid_call;
mod c87_client_kill9;
mod c88_reuses_id;
mod c89_two_clients_same_ids;
mod dead_bridge;
mod h26_500;
mod h27_502;
mod h28_503_retry_after;
mod h29_504;
mod h30_429_for_an_hour;
mod h30_429_retry_after;
mod h31_429_bare;
mod h32_h2_goaway;
mod h33_h2_refused_stream;
mod h34_404_session_expired;
mod h35_404_method_not_found;
mod h35b_400_session_lost;
mod h36_400_header_mismatch;
mod h36_400_headers_refused;
mod h37_html_instead_of_json;
mod h40_405_on_get;
mod h41_202_but_no_answer;
mod internal_error_now_and_then;
mod l81_burst_1000;
mod l82_queue_full;
mod l83_slow_client;
mod l84_one_tool_hangs;
mod l84_upstream_10x_slower;
mod l85_sixteen_mib_messages;
mod m62_unknown_id;
mod m63_duplicate_response;
mod m64_late_response;
mod m65_malformed_json;
mod m66_id_type_changed;
mod m67_notification_storm;
mod m68_progress_forever;
mod m69_era_flip_on_restart;
mod m70_tools_vanish_after_reconnect;
mod m71_input_required_across_reconnect;
mod m72_list_hangs;
mod n01_nxdomain;
mod n02_dns_timeout;
mod n03_address_changed;
mod n04_rebinds_to_private;
mod n05_connect_refused;
mod n06_connect_blackhole;
mod n07_host_unreachable;
mod n08_tls_stall;
mod n09_cert_expired;
mod n10_v6_dead_v4_alive;
mod notification_burst;
mod p53_exit_idle;
mod p54_kill9_mid_call;
mod p55_crash_loop;
mod p56_slow_start;
mod p57_deaf_and_talkative;
mod p57_frozen_idle;
mod p57_frozen_mid_call;
mod p57_stopped;
mod p58_ignores_eof_and_term;
mod p59_grandchild_holds_pipe;
mod p60_spawn_not_found;
mod p61_spawn_eagain;
mod pretty_printed;
mod r15_error_names_session;
mod s42_sse_split_crlf_bom;
mod s43_event_over_limit;
mod s44_comments_only;
mod s45_retry_absurd;
mod s46_replays_seen_events;
mod s47_resume_refused;
mod s48_stdout_noise;
mod s49_partial_line_then_exit;
mod s50_stderr_flood;
mod s51_stdin_not_read;
mod s52_prime_then_close_for_ever;
mod server_restart;
mod session_loss;
mod session_lost_in_body;
mod sse_stream_cut;
mod sse_stream_mute;
mod t01_status_without_answer;
mod t12_reset_mid_request;
mod t13_reset_before_headers;
mod t14_reset_mid_body;
mod t15_eof_without_response;
mod t16_half_open_silence;
mod t16_silence;
mod t16_silent_response;
mod t16_swallowed_request;
mod t17_partition_one_way;
mod t18_partition_two_way;
mod t22_limit_data;
mod t24_flap_1s;
mod t25_swizzle_clog;
mod x96_suspend_resume;
mod x96b_route_or_address_changed;
mod x97_reload_during_calls;

use std::time::Duration;

use mendline_core::Moment;

use crate::clock::Due;
use crate::site::Site;
use crate::world::World;

/// A fault.
pub trait Fault: Sync {
    /// Returns its id.
    fn name(&self) -> &'static str;
    /// Begins at this upstream or its client. Returns the delay until the first repetition.
    fn begin(&self, world: &mut World, at: usize) -> Option<Duration>;
    /// Acts again. Returns the delay until the next repetition.
    fn repeat(&self, world: &mut World, at: usize) -> Option<Duration> {
        let _ = (world, at);
        None
    }
    /// Ends.
    fn end(&self, world: &mut World, at: usize) {
        restore(world, at);
    }
    /// Configures an HTTP server so that the fault has an effect, where the plan leaves that open.
    fn prepare(&self, site: &mut Site) {
        let _ = site;
    }
    /// Returns whether it disconnects the client for good.
    fn ends_client(&self) -> bool {
        false
    }
}

/// A fault with its time and upstream.
#[derive(Clone, Copy)]
pub struct Planned {
    /// The fault.
    pub fault: &'static dyn Fault,
    /// The upstream.
    pub upstream: usize,
    /// The start.
    pub at: Moment,
    /// The duration.
    pub lasts: Duration,
    /// It has ended.
    pub over: bool,
}

/// Faults of children and clients, and of servers over any transport. Seeds select by index, so new faults go to the
/// end; most belong in [`HTTP_ONLY`].
pub const CHILD: &[&dyn Fault] = &[
    &by_hand_reconnect::Reconnect,
    &c86_leaves_mid_call::LeavesMidCall,
    &c87_client_kill9::ClientKill9,
    &c88_reuses_id::ReusesId,
    &l81_burst_1000::Burst1000,
    &l82_queue_full::QueueFull,
    &l83_slow_client::SlowClient,
    &l84_upstream_10x_slower::Upstream10xSlower,
    &m62_unknown_id::UnknownId,
    &m63_duplicate_response::DuplicateResponse,
    &m64_late_response::LateResponse,
    &m65_malformed_json::MalformedJson,
    &m66_id_type_changed::IdTypeChanged,
    &m67_notification_storm::NotificationStorm,
    &m68_progress_forever::ProgressForever,
    &m72_list_hangs::ListHangs,
    &p53_exit_idle::ExitIdle,
    &p54_kill9_mid_call::Kill9MidCall,
    &p55_crash_loop::CrashLoop,
    &p56_slow_start::SlowStart,
    &p57_stopped::Stopped,
    &p58_ignores_eof_and_term::IgnoresEofAndTerm,
    &p60_spawn_not_found::SpawnNotFound,
    &p61_spawn_eagain::SpawnEagain,
    &s48_stdout_noise::StdoutNoise,
    &s49_partial_line_then_exit::PartialLineThenExit,
    &s50_stderr_flood::StderrFlood,
    &s51_stdin_not_read::StdinNotRead,
    &t16_silence::Silence,
];

/// Faults of HTTP servers only.
pub const HTTP_ONLY: &[&dyn Fault] = &[
    &h26_500::InternalError,
    &h27_502::BadGateway,
    &h28_503_retry_after::Unavailable,
    &h30_429_retry_after::BusyForAWhile,
    &h31_429_bare::Busy,
    &h34_404_session_expired::SessionExpired,
    &h35b_400_session_lost::SessionLost,
    &h37_html_instead_of_json::HtmlInsteadOfJson,
    &h40_405_on_get::NotAllowedOnGet,
    &h41_202_but_no_answer::TakenButNoAnswer,
    &n05_connect_refused::ConnectRefused,
    &n06_connect_blackhole::ConnectBlackHole,
    &s45_retry_absurd::RetryAbsurd,
    &s47_resume_refused::ResumeRefused,
    &s52_prime_then_close_for_ever::PrimeThenCloseForEver,
    &server_restart::ServerRestart,
    &session_lost_in_body::SessionLostInBody,
    &t12_reset_mid_request::ResetMidRequest,
    &t13_reset_before_headers::ResetBeforeHeaders,
    &t14_reset_mid_body::ResetMidBody,
    &t15_eof_without_response::EofWithoutResponse,
    &t16_half_open_silence::HalfOpenSilence,
    &sse_stream_cut::SseStreamCut,
    &sse_stream_mute::SseStreamMute,
    &h36_400_header_mismatch::HeaderMismatch,
];

/// Faults from [`CHILD`] that also apply to HTTP servers: all that need no process.
pub const HTTP_SHARED: &[&dyn Fault] = &[
    &by_hand_reconnect::Reconnect,
    &c86_leaves_mid_call::LeavesMidCall,
    &c87_client_kill9::ClientKill9,
    &c88_reuses_id::ReusesId,
    &l81_burst_1000::Burst1000,
    &l82_queue_full::QueueFull,
    &l83_slow_client::SlowClient,
    &l84_upstream_10x_slower::Upstream10xSlower,
    &m63_duplicate_response::DuplicateResponse,
    &m64_late_response::LateResponse,
    &m65_malformed_json::MalformedJson,
    &m66_id_type_changed::IdTypeChanged,
    &m68_progress_forever::ProgressForever,
    &m72_list_hangs::ListHangs,
];

/// Additional faults of children in worlds with recovery policies and session state.
pub const RECOVERY_CHILD: &[&dyn Fault] = &[
    &c89_two_clients_same_ids::TwoClientsSameIds,
    &dead_bridge::DeadBridge,
    &internal_error_now_and_then::InternalErrorNowAndThen,
    &l85_sixteen_mib_messages::SixteenMibMessages,
    &m69_era_flip_on_restart::EraFlipOnRestart,
    &m70_tools_vanish_after_reconnect::ToolsVanishAfterReconnect,
    &m71_input_required_across_reconnect::InputRequiredAcrossReconnect,
    &p57_frozen_idle::FrozenIdle,
    &p57_deaf_and_talkative::DeafAndTalkative,
    &p59_grandchild_holds_pipe::GrandchildHoldsPipe,
    &t24_flap_1s::Flap1s,
    &t25_swizzle_clog::SwizzleClog,
    &x96_suspend_resume::SuspendResume,
    &x96b_route_or_address_changed::RouteOrAddressChanged,
    &x97_reload_during_calls::ReloadDuringCalls,
];

/// The same for HTTP servers.
pub const RECOVERY_HTTP: &[&dyn Fault] = &[
    &c89_two_clients_same_ids::TwoClientsSameIds,
    &h29_504::GatewayTimeout,
    &h32_h2_goaway::GoAway,
    &h33_h2_refused_stream::RefusedStream,
    &h35_404_method_not_found::MethodNotFound,
    &h36_400_headers_refused::HeadersRefused,
    &internal_error_now_and_then::InternalErrorNowAndThen,
    &m70_tools_vanish_after_reconnect::ToolsVanishAfterReconnect,
    &m71_input_required_across_reconnect::InputRequiredAcrossReconnect,
    &n01_nxdomain::NxDomain,
    &n02_dns_timeout::DnsTimeout,
    &n03_address_changed::AddressChanged,
    &n04_rebinds_to_private::RebindsToPrivate,
    &n07_host_unreachable::HostUnreachable,
    &n08_tls_stall::TlsStall,
    &n09_cert_expired::CertExpired,
    &n10_v6_dead_v4_alive::V6DeadV4Alive,
    &s42_sse_split_crlf_bom::SplitCrlfBom,
    &s43_event_over_limit::EventOverLimit,
    &s44_comments_only::CommentsOnly,
    &s46_replays_seen_events::ReplaysSeenEvents,
    &t17_partition_one_way::PartitionOneWay,
    &t18_partition_two_way::PartitionTwoWay,
    &t22_limit_data::LimitData,
    &t24_flap_1s::Flap1s,
    &t25_swizzle_clog::SwizzleClog,
    &x96_suspend_resume::SuspendResume,
    &x96b_route_or_address_changed::RouteOrAddressChanged,
    &x97_reload_during_calls::ReloadDuringCalls,
    &pretty_printed::PrettyPrinted,
    &notification_burst::NotificationBurst,
];

/// Faults of children in worlds with breakers and limits.
pub const LIMITS_CHILD: &[&dyn Fault] = &[
    &by_hand_isolate::Isolate,
    &internal_error_now_and_then::InternalErrorNowAndThen,
    &l84_one_tool_hangs::OneToolHangs,
    &p54_kill9_mid_call::Kill9MidCall,
    &m65_malformed_json::MalformedJson,
];

/// The same for HTTP servers.
pub const LIMITS_HTTP: &[&dyn Fault] = &[
    &by_hand_isolate::Isolate,
    &h26_500::InternalError,
    &h27_502::BadGateway,
    &h28_503_retry_after::Unavailable,
    &h30_429_retry_after::BusyForAWhile,
    &h30_429_retry_after::BusyForAWhile,
    &h30_429_for_an_hour::BusyForAnHour,
    &h31_429_bare::Busy,
    &internal_error_now_and_then::InternalErrorNowAndThen,
    &l84_one_tool_hangs::OneToolHangs,
    &t13_reset_before_headers::ResetBeforeHeaders,
    &r15_error_names_session::ErrorNamesSession,
    &t01_status_without_answer::StatusWithoutAnswer,
];

/// Faults of children in worlds with silent calls.
pub const SILENT_CHILD: &[&dyn Fault] = &[
    &p57_frozen_mid_call::FrozenMidCall,
    &p57_stopped::Stopped,
    &t16_silence::Silence,
    &l84_one_tool_hangs::OneToolHangs,
];

/// The same for HTTP servers.
pub const SILENT_HTTP: &[&dyn Fault] = &[
    &t16_swallowed_request::SwallowedRequest,
    &t16_silent_response::SilentResponse,
    &t16_half_open_silence::HalfOpenSilence,
    &t16_silence::Silence,
    &l84_one_tool_hangs::OneToolHangs,
];

/// Faults of HTTP servers in worlds with renewable credentials.
pub const CREDENTIALS_HTTP: &[&dyn Fault] = &[
    &a73_token_expired_401::TokenExpired,
    &a74_expires_mid_stream::ExpiresMidStream,
    &a75_refresh_down::RefreshDown,
    &a75_login_ended::LoginEnded,
    &a77_401_with_fresh_token::FreshTokenRefused,
    &a78_403_scope::ScopeMissing,
    &a80_credential_command_hangs::SourceHangs,
];

/// Returns every fault; some occur more than once.
pub fn all() -> impl Iterator<Item = &'static dyn Fault> {
    CHILD
        .iter()
        .chain(HTTP_ONLY)
        .chain(RECOVERY_CHILD)
        .chain(RECOVERY_HTTP)
        .chain(LIMITS_CHILD)
        .chain(LIMITS_HTTP)
        .chain(SILENT_CHILD)
        .chain(SILENT_HTTP)
        .chain(CREDENTIALS_HTTP)
        .copied()
}

/// Returns the fault with this id.
pub fn by_name(name: &str) -> Option<&'static dyn Fault> {
    all().find(|fault| fault.name() == name)
}

/// Restores an upstream and answers everything that was held back.
pub fn restore(world: &mut World, at: usize) {
    let ignores_term = world.hosts[at].faults.ignores_term;
    world.hosts[at].faults = world.hosts[at].baseline.clone();
    // A child that ignores TERM keeps doing so, so that the shutdown has to handle it.
    world.hosts[at].faults.ignores_term = ignores_term;
    world.release(at);
    world.clear_network_faults(at);
    world.restore_credential(at);
}

/// Begins a scheduled fault.
pub fn begin(world: &mut World, index: usize) {
    let Planned { fault, upstream, lasts, .. } = world.faults[index];
    let now = world.clock.now();
    world.journal.write_line(now, &format!("fault {} begins at upstream {upstream}", fault.name()));
    world.coverage.fault_began(fault.name());
    if let Some(wait) = fault.begin(world, upstream) {
        world.clock.after(wait, Due::FaultRepeats(index));
    }
    world.clock.after(lasts, Due::FaultEnds(index));
}

/// Repeats a scheduled fault, unless it has ended.
pub fn repeat(world: &mut World, index: usize) {
    let Planned { fault, upstream, over, .. } = world.faults[index];
    if !over && let Some(wait) = fault.repeat(world, upstream) {
        world.clock.after(wait, Due::FaultRepeats(index));
    }
}

/// Ends a scheduled fault.
pub fn end(world: &mut World, index: usize) {
    let Planned { fault, upstream, over, .. } = world.faults[index];
    if !over {
        world.faults[index].over = true;
        let now = world.clock.now();
        world.journal.write_line(now, &format!("fault {} ends at upstream {upstream}", fault.name()));
        fault.end(world, upstream);
    }
}

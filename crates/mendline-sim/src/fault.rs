//! The faults, one file each, named after their rows in the fault matrix.
//!
//! A fault strikes one upstream, or the client that uses it. It turns a knob of the [`Temper`](crate::temper::Temper) or of the
//! [`Weather`](crate::weather::Weather), or does something once or in pulses; at its end everything is as it was, unless it
//! says otherwise. A fault knows the world and nothing of the engine.

mod by_hand_reconnect;
mod c86_leaves_mid_call;
mod c87_client_kill9;
mod c88_reuses_id;
mod h26_500;
mod h27_502;
mod h28_503_retry_after;
mod h30_429_retry_after;
mod h31_429_bare;
mod h34_404_session_expired;
mod h35b_400_session_lost;
mod h37_html_instead_of_json;
mod h40_405_on_get;
mod h41_202_but_no_answer;
mod l81_burst_1000;
mod l82_queue_full;
mod l83_slow_client;
mod l84_upstream_10x_slower;
mod m62_unknown_id;
mod m63_duplicate_response;
mod m64_late_response;
mod m65_malformed_json;
mod m66_id_type_changed;
mod m67_notification_storm;
mod m68_progress_forever;
mod m72_list_hangs;
mod n05_connect_refused;
mod n06_connect_blackhole;
mod p53_exit_idle;
mod p54_kill9_mid_call;
mod p55_crash_loop;
mod p56_slow_start;
mod p57_stopped;
mod p58_ignores_eof_and_term;
mod p60_spawn_not_found;
mod p61_spawn_eagain;
mod s45_retry_absurd;
mod s47_resume_refused;
mod s48_stdout_noise;
mod s49_partial_line_then_exit;
mod s50_stderr_flood;
mod s51_stdin_not_read;
mod s52_prime_then_close_for_ever;
mod server_restart;
mod session_lost_in_body;
mod t12_reset_mid_request;
mod t13_reset_before_headers;
mod t14_reset_mid_body;
mod t15_eof_without_response;
mod t16_half_open_silence;
mod t16_silence;
mod trunk_cut;
mod trunk_mute;

use std::time::Duration;

use mendline_core::Moment;

use crate::clock::Due;
use crate::site::Site;
use crate::world::World;

/// One way to break something.
pub trait Fault: Sync {
    /// Its row in the matrix.
    fn name(&self) -> &'static str;
    /// Strikes the upstream with this place, or its client. What is given back is the time to the first pulse.
    fn begin(&self, world: &mut World, at: usize) -> Option<Duration>;
    /// Strikes again; gives back the time to the next pulse, if there is one.
    fn go_on(&self, world: &mut World, at: usize) -> Option<Duration> {
        let _ = (world, at);
        None
    }
    /// Is over.
    fn end(&self, world: &mut World, at: usize) {
        mend(world, at);
    }
    /// Makes an HTTP server one that it can harm, where the plan leaves that open: a fault that cannot bite proves nothing.
    fn suit(&self, site: &mut Site) {
        let _ = site;
    }
    /// Whether it takes the client away for good.
    fn ends_client(&self) -> bool {
        false
    }
}

/// A fault with its time and place.
#[derive(Clone, Copy)]
pub struct Planned {
    /// What.
    pub fault: &'static dyn Fault,
    /// Where.
    pub upstream: usize,
    /// When.
    pub at: Moment,
    /// For how long.
    pub lasts: Duration,
    /// It is over.
    pub over: bool,
}

/// The faults of children, of clients and of servers whatever way they are reached. Seeds pick by place, so new ones go to
/// the end, and most belong into [`HTTP_ONLY`].
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

/// The faults that only servers behind a URL have.
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
    &trunk_cut::TrunkCut,
    &trunk_mute::TrunkMute,
];

/// What happens to children and clients and happens to servers behind a URL too: all that makes sense without a process.
pub const HTTP_TOO: &[&dyn Fault] = &[
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

/// Every fault there is.
pub fn all() -> impl Iterator<Item = &'static dyn Fault> {
    CHILD.iter().chain(HTTP_ONLY).copied()
}

/// The fault with this name.
pub fn by_name(name: &str) -> Option<&'static dyn Fault> {
    all().find(|fault| fault.name() == name)
}

/// Everything at an upstream is as it should be again, and what hung goes on.
pub fn mend(world: &mut World, at: usize) {
    let stubborn = world.hosts[at].temper.stubborn;
    world.hosts[at].temper = world.hosts[at].health.clone();
    // Who ignores every polite word goes on doing so: the end of the world has to cope with it.
    world.hosts[at].temper.stubborn = stubborn;
    world.stir(at);
    world.clear_up(at);
}

/// A planned fault begins.
pub fn begin(world: &mut World, place: usize) {
    let Planned { fault, upstream, lasts, .. } = world.faults[place];
    let now = world.clock.now();
    world.journal.say(now, &format!("fault {} strikes upstream {upstream}", fault.name()));
    world.coverage.struck(fault.name());
    if let Some(wait) = fault.begin(world, upstream) {
        world.clock.after(wait, Due::FaultGoesOn(place));
    }
    world.clock.after(lasts, Due::FaultEnds(place));
}

/// A planned fault strikes again, unless it is over.
pub fn go_on(world: &mut World, place: usize) {
    let Planned { fault, upstream, over, .. } = world.faults[place];
    if !over && let Some(wait) = fault.go_on(world, upstream) {
        world.clock.after(wait, Due::FaultGoesOn(place));
    }
}

/// A planned fault is over.
pub fn end(world: &mut World, place: usize) {
    let Planned { fault, upstream, over, .. } = world.faults[place];
    if !over {
        world.faults[place].over = true;
        let now = world.clock.now();
        world.journal.say(now, &format!("fault {} is over at upstream {upstream}", fault.name()));
        fault.end(world, upstream);
    }
}

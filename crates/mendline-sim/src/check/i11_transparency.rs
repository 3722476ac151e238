//! I11: forwarded messages are unchanged.
//!
//! A server receives the parameters byte for byte as the client wrote them, except for the progress token. A client
//! receives a body that its server wrote for that request or, for a cached list, a body that it wrote earlier, except
//! for its time to live. Progress reaches the request that the server meant, with the token of the client.

use mendline_core::Moment;
use mendline_wire::{Message, Method};

use super::Check;
use crate::fact::Fact;
use crate::oracle::{Oracle, Record, Verdict};

/// Has no state.
pub(super) struct Transparency;

fn params_as_written(message: &Message, record: &Record) -> bool {
    let Some(body) = message.body() else { return record.params.is_empty() };
    match (&record.token, message.progress_token(), message.body_span()) {
        (Some(token), Some(at), Some(whole)) => {
            let (start, end) = (at.start as usize - whole.start as usize, at.end as usize - whole.start as usize);
            let restored = [&body[..start], token.as_ref(), &body[end..]].concat();
            restored == record.params
        }
        (None, None, _) => body == record.params.as_ref(),
        _ => false,
    }
}

impl Check for Transparency {
    fn name(&self) -> &'static str {
        "I11 transparency"
    }

    fn see(&mut self, fact: &Fact<'_>, _: Moment, oracle: &Oracle) -> Result<(), String> {
        match fact {
            Fact::Read { key, message, .. } => {
                let record = oracle.of(*key);
                if !params_as_written(message, record) {
                    return Err(format!(
                        "{} ({}) arrived as {} and was written as {}",
                        record.id,
                        record.what,
                        String::from_utf8_lossy(message.body().unwrap_or_default()),
                        String::from_utf8_lossy(&record.params)
                    ));
                }
            }
            Fact::Answered { key, verdict: Verdict::Passed(body), .. } => {
                let record = oracle.of(*key);
                let twins = || {
                    oracle.all().any(|(_, it)| {
                        it.twin && it.client == record.client && it.id == record.id && it.replies.contains(body)
                    })
                };
                let is_its_own = record.replies.contains(body) || (record.twin && twins());
                // Mendline answers pings while the server is away.
                let is_ping = record.method == Method::Ping && body.as_ref() == b"{}";
                let is_of_session = oracle.may_be_of_session(record, body);
                if !is_its_own && !is_ping && !is_of_session && !oracle.may_be_from_cache(record, body) {
                    return Err(format!(
                        "{} ({}) was answered {}, which no server wrote for it",
                        record.id,
                        record.what,
                        String::from_utf8_lossy(body)
                    ));
                }
            }
            Fact::Progressed { meant: Some(meant), .. } if oracle.of(*meant).twin => {}
            Fact::Progressed { client, named, meant, .. } if named != meant => {
                return Err(format!("client {} read progress of {meant:?} under the token of {named:?}", client.0));
            }
            _ => {}
        }
        Ok(())
    }
}

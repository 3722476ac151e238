//! A notification or a response of the client gets another status than 202, a body, or a delay.

use std::time::Duration;

use http::StatusCode;

use super::{Fault, FaultContext, Runs};
use crate::HttpRequest;
use crate::server::reply::{Answer, Reply};
use crate::server::state::Refused;

pub(super) const FAULT: Fault = Fault {
    name: "notification_answered",
    row: "",
    description: "Answers a notification or response with this status, optionally late and with a body.",
    value: "status (200), or an object of status, body and delayMs",
    runs: Runs::Never,
    applies_to: is_no_request,
    answer: |context| Box::pin(answer(context)),
};

fn is_no_request(request: &HttpRequest) -> bool {
    request.message.is_some() && !request.is_request()
}

async fn answer(context: FaultContext) -> Result<Reply, Refused> {
    let value = context.value.clone();
    let taken = context.serve().await;
    tokio::time::sleep(Duration::from_millis(value["delayMs"].as_u64().unwrap_or(0))).await;
    let status = value["status"].as_u64().or(value.as_u64()).and_then(|status| u16::try_from(status).ok());
    let status = status.and_then(|status| StatusCode::from_u16(status).ok()).unwrap_or(StatusCode::OK);
    Ok(match (taken, value["body"].as_str()) {
        (Reply::Answer(Answer { status: StatusCode::ACCEPTED, .. }), Some(body)) => {
            Reply::json(status, body.to_owned().into())
        }
        (Reply::Answer(Answer { status: StatusCode::ACCEPTED, .. }), None) => Reply::empty(status),
        (refused, _) => refused,
    })
}

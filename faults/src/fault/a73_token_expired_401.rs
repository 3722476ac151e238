//! A73: the access token has expired, and the response challenges the client.

use bytes::Bytes;
use http::StatusCode;
use http::header::WWW_AUTHENTICATE;

use super::{Fault, FaultContext, Runs};
use crate::HttpRequest;
use crate::server::reply::Reply;
use crate::server::state::Refused;

pub(super) const FAULT: Fault = Fault {
    name: "a73_token_expired_401",
    row: "A73",
    description: "Answers 401 with a challenge.",
    value: "",
    runs: Runs::Never,
    applies_to: HttpRequest::is_call,
    answer: |context| Box::pin(answer(context)),
};

const CHALLENGE: &str = r#"Bearer error="invalid_token", error_description="The access token expired""#;

async fn answer(context: FaultContext) -> Result<Reply, Refused> {
    context.run().await;
    let reply = Reply::whole(StatusCode::UNAUTHORIZED, Some("text/plain"), Bytes::from_static(b"Unauthorized"));
    Ok(reply.with(WWW_AUTHENTICATE, CHALLENGE))
}

//! Faults of the token endpoint.

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http::header::RETRY_AFTER;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::server::reply::Reply;
use crate::server::socket::Ending;

/// A fault of the token endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TokenFault {
    /// Answers with this status and a plain text, without processing the request.
    Status {
        /// The status.
        status: u16,
        /// The seconds of `Retry-After`.
        #[serde(default, rename = "retryAfter")]
        retry_after: Option<u64>,
    },
    /// Answers 200 with an HTML page, without processing the request.
    Html,
    /// Answers 200 with JSON that is no token response, without processing the request.
    WrongJson,
    /// Answers 200 with this `error`, without processing the request.
    ErrorInSuccess(String),
    /// Answers 400 with this `error`, without processing the request.
    Error(String),
    /// Processes the request after these milliseconds.
    Slow(u64),
    /// Never answers and does not process the request.
    Hang,
    /// Resets the connection without processing the request.
    Cut,
    /// Processes the request and answers after these milliseconds.
    SlowAfterProcessing(u64),
    /// Processes the request and never answers.
    HangAfterProcessing,
    /// Processes the request and resets the connection.
    CutAfterProcessing,
}

impl TokenFault {
    /// Answers a request that is not processed. `None` means that it is processed now.
    pub(crate) async fn before(&self) -> Option<Reply> {
        match self {
            TokenFault::Status { status, retry_after } => {
                let status = StatusCode::from_u16(*status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                let reply = Reply::whole(status, Some("text/plain"), Bytes::from(status.to_string()));
                Some(match retry_after {
                    Some(seconds) => reply.with(RETRY_AFTER, &seconds.to_string()),
                    None => reply,
                })
            }
            TokenFault::Html => Some(Reply::whole(
                StatusCode::OK,
                Some("text/html"),
                Bytes::from_static(b"<html><body><h1>We will be back soon</h1></body></html>"),
            )),
            TokenFault::WrongJson => Some(json_reply(StatusCode::OK, &json!({ "access_token": 7, "expires_in": [] }))),
            TokenFault::ErrorInSuccess(error) => {
                Some(json_reply(StatusCode::OK, &json!({ "ok": false, "error": error })))
            }
            TokenFault::Error(error) => Some(json_reply(StatusCode::BAD_REQUEST, &json!({ "error": error }))),
            TokenFault::Slow(ms) => {
                tokio::time::sleep(Duration::from_millis(*ms)).await;
                None
            }
            TokenFault::Hang => std::future::pending().await,
            TokenFault::Cut => Some(Reply::Cut(Ending::Reset)),
            TokenFault::SlowAfterProcessing(_) | TokenFault::HangAfterProcessing | TokenFault::CutAfterProcessing => {
                None
            }
        }
    }

    /// Changes the response to a request that was processed.
    pub(crate) async fn after(&self, reply: Reply) -> Reply {
        match self {
            TokenFault::SlowAfterProcessing(ms) => {
                tokio::time::sleep(Duration::from_millis(*ms)).await;
                reply
            }
            TokenFault::HangAfterProcessing => std::future::pending().await,
            TokenFault::CutAfterProcessing => Reply::Cut(Ending::Reset),
            _ => reply,
        }
    }
}

fn json_reply(status: StatusCode, value: &serde_json::Value) -> Reply {
    Reply::json(status, Bytes::from(value.to_string()))
}

//! The foreign origin, which no client should send requests to.
//!
//! It answers 200 and records what it receives, credentials in particular.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{AUTHORIZATION, COOKIE};
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use mendline_wire::headers;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::reply::{Content, Outgoing};
use super::socket::ConnectionHandle;
use crate::oracle::{ForeignRequest, Oracle};

pub(crate) async fn accept(listener: TcpListener, oracle: Arc<Oracle>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::task::yield_now().await;
            continue;
        };
        let oracle = Arc::clone(&oracle);
        connections.spawn(async move {
            let service = service_fn(move |request| record(Arc::clone(&oracle), request));
            // The result of the connection does not matter.
            let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn record(oracle: Arc<Oracle>, request: Request<Incoming>) -> Result<Response<Outgoing>, Infallible> {
    let (parts, body) = request.into_parts();
    let bytes = super::read(body).await.map_or(0, |text| text.len());
    let foreign = ForeignRequest {
        verb: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        credentials: parts.headers.contains_key(AUTHORIZATION) || parts.headers.contains_key(COOKIE),
        session: parts.headers.contains_key(headers::SESSION_ID),
        bytes,
    };
    oracle.record(|counts| counts.elsewhere.push(foreign));
    let mut response =
        Response::new(Outgoing::new(Content::Whole(Bytes::from_static(b"{}")), ConnectionHandle::new(0)));
    *response.status_mut() = StatusCode::OK;
    Ok(response)
}

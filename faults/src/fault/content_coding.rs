//! Every body is compressed, even if the client did not ask for it.

use std::sync::Arc;

use http::header::CONTENT_ENCODING;
use miniz_oxide::MZFlush;
use miniz_oxide::deflate::core::{CompressorOxide, create_comp_flags_from_zip_params};
use miniz_oxide::deflate::stream::deflate;
use tokio::sync::mpsc;

use super::{Fault, FaultContext, Runs};
use crate::HttpRequest;
use crate::server::reply::{Content, Piece, Reply};
use crate::server::state::Refused;

pub(super) const FAULT: Fault = Fault {
    name: "content_coding",
    row: "",
    description: "Answers with gzip, or with plain bytes labelled with the coding in the value.",
    value: "the coding (gzip)",
    runs: Runs::Always,
    applies_to: HttpRequest::is_request,
    answer: |context| Box::pin(answer(context)),
};

async fn answer(context: FaultContext) -> Result<Reply, Refused> {
    let coding = context.value.as_str().unwrap_or("gzip").to_owned();
    let state = Arc::clone(&context.state);
    let executed = context.execute().await?;
    let mut reply = context.send(executed.admitted, executed.messages).await;
    if let (Reply::Answer(answer), "gzip") = (&mut reply, coding.as_str()) {
        let mut gzip = Gzip::new();
        match &mut answer.content {
            Content::Whole(text) => *text = [gzip.next(text), gzip.end()].concat().into(),
            Content::Pieces(pieces) => {
                let (compressed, taken) = mpsc::channel(1);
                let mut plain = std::mem::replace(pieces, taken);
                state.spawn(async move {
                    while let Some(piece) = plain.recv().await {
                        let piece = match piece {
                            Piece::Bytes(bytes) => Piece::Bytes(gzip.next(&bytes).into()),
                            cut => cut,
                        };
                        if compressed.send(piece).await.is_err() {
                            return;
                        }
                    }
                    let _ = compressed.send(Piece::Bytes(gzip.end().into())).await;
                });
            }
        }
    }
    Ok(reply.with(CONTENT_ENCODING, &coding))
}

/// A gzip stream that is flushed after every piece.
struct Gzip {
    compressor: Box<CompressorOxide>,
    sum: u32,
    length: u32,
    has_begun: bool,
}

impl Gzip {
    fn new() -> Gzip {
        let flags = create_comp_flags_from_zip_params(6, -15, 0);
        Gzip { compressor: Box::new(CompressorOxide::new(flags)), sum: !0, length: 0, has_begun: false }
    }

    fn next(&mut self, text: &[u8]) -> Vec<u8> {
        for byte in text {
            self.sum ^= u32::from(*byte);
            for _ in 0..8 {
                self.sum = if self.sum & 1 == 1 { self.sum >> 1 ^ 0xedb8_8320 } else { self.sum >> 1 };
            }
        }
        self.length = self.length.wrapping_add(text.len() as u32);
        self.deflate(text, MZFlush::Sync)
    }

    fn end(&mut self) -> Vec<u8> {
        let mut out = self.deflate(&[], MZFlush::Finish);
        out.extend((!self.sum).to_le_bytes());
        out.extend(self.length.to_le_bytes());
        out
    }

    fn deflate(&mut self, mut text: &[u8], flush: MZFlush) -> Vec<u8> {
        let mut out = Vec::new();
        if !std::mem::replace(&mut self.has_begun, true) {
            out.extend(b"\x1f\x8b\x08\0\0\0\0\0\0\x03");
        }
        let mut piece = [0; 4096];
        loop {
            let done = deflate(&mut self.compressor, text, &mut piece, flush);
            text = &text[done.bytes_consumed..];
            out.extend_from_slice(&piece[..done.bytes_written]);
            if done.bytes_written < piece.len() || done.status.is_err() {
                return out;
            }
        }
    }
}

//! A connection behind its TLS handshake: bytes in and out, with errors that a user understands.
//!
//! A server of TLS 1.3 refuses a client's certificate only here, after the handshake. This file
//! makes no handshake.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::client::TlsStream;

use crate::net::tls::error_text::{TlsPhase, explain};
use crate::net::transport::Transport;

/// The encrypted stream, whose errors explain what is wrong.
pub(crate) struct Encrypted {
    pub(crate) stream: TlsStream<Box<dyn Transport>>,
    /// Whether the client has a certificate to show.
    pub(crate) shows_identity: bool,
}

impl AsyncRead for Encrypted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer).map(|read| match read {
            // Frames carry their length, so a stream that ends without TLS's closing message does
            // no harm.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
            read => read.map_err(|error| explain(error, TlsPhase::Later, self.shows_identity)),
        })
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

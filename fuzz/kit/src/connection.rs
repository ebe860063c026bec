//! A connection to a server, frame by frame.
//!
//! It knows lengths and nothing of what is in a frame. A wait that takes too long is an answer too.

use std::time::Duration;

use anyhow::{Context, Result};
use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use zk_proto::{DecodeError, frame};

/// The reason why no frame came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The server closed the connection.
    Closed,
    /// The server sent nothing for too long.
    Silent,
}

/// An open connection.
pub(crate) struct Connection {
    stream: TcpStream,
    input: BytesMut,
    /// How long the server may be silent before the silence counts as its reply.
    pub(crate) patience: Duration,
}

impl Connection {
    pub(crate) async fn open(address: &str, patience: Duration) -> Result<Self> {
        let connected = timeout(patience, TcpStream::connect(address)).await;
        let stream = connected.context("no connection in time")?.context("no connection")?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, input: BytesMut::new(), patience })
    }

    /// An error is ignored: that the server has closed the connection, or does not read, shows when
    /// its reply is read.
    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        timeout(self.patience, self.stream.write_all(bytes)).await.ok();
    }

    /// Ends the connection and waits until the server knows, and has removed its watches: on 3.8 a
    /// checkWatches of another client finds them.
    pub(crate) async fn cut(mut self) -> Result<(), DecodeError> {
        self.stream.shutdown().await.ok();
        while self.frame().await?.is_ok() {}
        Ok(())
    }

    pub(crate) async fn frame(&mut self) -> Result<Result<Bytes, End>, DecodeError> {
        loop {
            if let Some(payload) = frame::split(&mut self.input, frame::CLIENT_FRAME_LIMIT)? {
                return Ok(Ok(payload));
            }
            if let Err(end) = self.read().await {
                return Ok(Err(end));
            }
        }
    }

    /// Reads until the server closes the connection, for an answer without frames.
    pub(crate) async fn text(&mut self) -> Result<Bytes, End> {
        loop {
            match self.read().await {
                Ok(()) => {}
                Err(End::Closed) => return Ok(self.input.split().freeze()),
                Err(End::Silent) => return Err(End::Silent),
            }
        }
    }

    async fn read(&mut self) -> Result<(), End> {
        // An end and a reset count as the same: which of them it is depends on what was in flight.
        match timeout(self.patience, self.stream.read_buf(&mut self.input)).await {
            Ok(Ok(0) | Err(_)) => Err(End::Closed),
            Ok(Ok(_)) => Ok(()),
            Err(_) => Err(End::Silent),
        }
    }
}

//! Requests for a guest as the daemon gets them: checked, with their secrets filled in.
//!
//! This crate opens no connection. It decides whether a request may be sent; [`HttpTransport`] decides whether the
//! address of the host may be connected to, and sends the request.

use std::collections::BTreeMap;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use tool_core::api::HostName;

/// Bytes of the largest body of a response.
pub const RESPONSE_BODY_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Bytes of all header fields of a request or a response.
pub const FIELDS_BYTES_MAX: usize = 32 * 1024;

/// Header fields in their order. Names are lower-case.
pub type HeaderFields = Vec<(String, Vec<u8>)>;

/// A request that the policy allows.
#[derive(Clone)]
pub struct OutboundRequest {
    /// The host that the effect names.
    pub host: HostName,
    /// True for TLS.
    pub is_encrypted: bool,
    /// Method, in upper case.
    pub method: String,
    /// Path and query; begins with `/`.
    pub path_with_query: String,
    /// Header fields, secrets included.
    pub fields: HeaderFields,
    /// Body.
    pub body: Vec<u8>,
    /// Time for the whole exchange.
    pub timeout: Duration,
    /// `SSL_CERT_FILE` and `SSL_CERT_DIR` of the calling command, if set.
    pub authorities: BTreeMap<String, String>,
}

/// A complete response.
#[derive(Debug, Clone)]
pub struct InboundResponse {
    /// Status code.
    pub status: u16,
    /// Header fields.
    pub fields: HeaderFields,
    /// Body, at most [`RESPONSE_BODY_BYTES_MAX`].
    pub body: Vec<u8>,
}

/// Why a request of a skill got no response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// The host name has no address.
    #[error("the host has no address")]
    NoAddress,
    /// The address belongs to this machine or a private network, and the user's file does not name the host.
    #[error("the address of the host is not public, and the user's file does not name the host")]
    ProhibitedAddress,
    /// The request has no TLS, and the user's file does not name the host.
    #[error("the request is not encrypted, and the user's file does not name the host")]
    NotEncrypted,
    /// No connection could be made.
    #[error("the host does not accept connections")]
    Refused,
    /// The certificate or the encryption is not acceptable.
    #[error("the encryption of the host is not acceptable")]
    Encryption,
    /// The time is over.
    #[error("the host did not answer in time")]
    Timeout,
    /// The body is longer than [`RESPONSE_BODY_BYTES_MAX`].
    #[error("the body of the response is too long")]
    BodyTooLong,
    /// The header fields are longer than [`FIELDS_BYTES_MAX`].
    #[error("the header of the response is too long")]
    FieldsTooLong,
    /// The response breaks the protocol, or ends too early.
    #[error("the response is not valid")]
    Invalid,
    /// This process has no transport.
    #[error("this host makes no connections")]
    Unavailable,
}

/// Sends requests. The daemon implements it.
pub trait HttpTransport: Send + Sync {
    /// Starts to send a request, and returns immediately. It connects only to an address that it has checked itself,
    /// follows no redirects, and gives up when `cancel` is cancelled.
    fn send(
        &self,
        request: OutboundRequest,
        cancel: CancellationToken,
    ) -> Receiver<Result<InboundResponse, TransportError>>;
}

//! Requests of a guest over HTTP: `wasi:http/outgoing-handler`, within the effects `http:HOST` and `http-write:HOST`.
//!
//! A request is checked here, gets its secrets, and goes to the transport of the daemon. Body and response are held in
//! memory as a whole, so that a secret is masked everywhere the server repeats it. Redirects are not followed: the
//! guest sees them, and its next request is checked like every other. The data types of `wasi:http` are in `types`.

mod request_text;
mod types;

use std::collections::BTreeMap;
use std::sync::Arc;

use wasmtime::component::{HasSelf, Linker, Resource};

use crate::bindings::outside::wasi::http::outgoing_handler;
use crate::bindings::outside::wasi::http::types as wit;
use crate::budget::GuestStop;
use crate::exchange::{ExchangeError, ExchangeProgress, HttpExchange, SentRequest, WaitingRequest};
use crate::imports::consent;
use crate::secrets::{self, SecretMask};
use crate::store::StoreState;
use crate::transport::{OutboundRequest, TransportError};
use crate::{CallContext, Question};
use tool_core::api::{Effect, ErrorKind, HostName};
use types::{OutgoingRequest, RequestOptions};

/// Requests of one call.
pub(crate) const REQUESTS_MAX: u64 = 200;

/// Bytes of all bodies of a call, of requests and responses together: they are in the host's memory.
pub(crate) const BODY_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Largest body of a request.
pub(crate) const REQUEST_BODY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Adds the interfaces to the linker of a component that imports them.
pub(crate) fn link_http(linker: &mut Linker<StoreState>) -> wasmtime::Result<()> {
    let stable = wit::LinkOptions::default();
    wit::add_to_linker::<StoreState, HasSelf<StoreState>>(linker, &stable, |state| state)?;
    outgoing_handler::add_to_linker::<StoreState, HasSelf<StoreState>>(linker, |state| state)
}

impl outgoing_handler::Host for StoreState {
    fn handle(
        &mut self,
        request: Resource<wit::OutgoingRequest>,
        options: Option<Resource<wit::RequestOptions>>,
    ) -> wasmtime::Result<Result<Resource<wit::FutureIncomingResponse>, wit::ErrorCode>> {
        self.call.check()?;
        let request: OutgoingRequest = self.remove(&request)?;
        if let Some(options) = options {
            // The time of the call bounds every request; a guest's own timeouts could only end it earlier.
            self.remove::<RequestOptions, _>(&options)?;
        }
        let exchange = Arc::clone(&request.exchange);
        let waiting = match check_request(request) {
            Ok(waiting) => waiting,
            Err(code) => return Ok(Err(code)),
        };
        self.allow(effect_of(&waiting))?;
        *exchange.progress() = ExchangeProgress::Waiting(Box::new(waiting));
        self.send_complete(&exchange)?;
        Ok(Ok(self.push(exchange)?))
    }
}

/// The effect that a request needs.
fn effect_of(request: &WaitingRequest) -> Effect {
    match &*request.method {
        "GET" | "HEAD" => Effect::Http(request.host),
        _ => Effect::HttpWrite(request.host),
    }
}

/// Checks the form of a request.
fn check_request(request: OutgoingRequest) -> Result<WaitingRequest, wit::ErrorCode> {
    let is_encrypted = match request.scheme {
        None | Some(wit::Scheme::Https) => true,
        Some(wit::Scheme::Http) => false,
        Some(wit::Scheme::Other(_)) => return Err(wit::ErrorCode::HttpProtocolError),
    };
    let authority = request.authority.unwrap_or_default().to_ascii_lowercase();
    let usual_port = if is_encrypted { ":443" } else { ":80" };
    let host: HostName = authority
        .strip_suffix(usual_port)
        .unwrap_or(&authority)
        .parse()
        .map_err(|_| wit::ErrorCode::HttpRequestUriInvalid)?;
    Ok(WaitingRequest {
        host,
        is_encrypted,
        method: request.method,
        path_with_query: request.path_with_query.unwrap_or_else(|| "/".to_owned()),
        fields: request.fields,
    })
}

impl StoreState {
    /// Returns the session's context if the effect is granted; otherwise the guest ends.
    pub(crate) fn allow(&self, effect: Effect) -> Result<Arc<CallContext>, GuestStop> {
        if let Some(recorder) = self.call.recorder() {
            recorder.effect(effect);
        }
        self.granted(effect).cloned().ok_or_else(|| self.stop(effect))
    }

    /// Sends a request whose body is complete. If the body is not complete, the request is sent when the guest finishes
    /// it.
    fn send_complete(&mut self, exchange: &Arc<HttpExchange>) -> wasmtime::Result<()> {
        let mut progress = exchange.progress();
        let body = {
            let mut body = exchange.body();
            if body.is_open && !body.is_finished {
                return Ok(());
            }
            body.is_finished = true;
            std::mem::take(&mut body.bytes)
        };
        *progress = match std::mem::take(&mut *progress) {
            ExchangeProgress::Waiting(request) => self.send(*request, body)?,
            other => other,
        };
        Ok(())
    }

    fn send(&self, mut request: WaitingRequest, body: Vec<u8>) -> Result<ExchangeProgress, GuestStop> {
        let effect = effect_of(&request);
        let context = self.allow(effect)?;
        let ended = |error| Ok(ExchangeProgress::Ended(Err(error)));
        let masks = match self.fill_secrets(&mut request)? {
            Ok(masks) => masks,
            Err(reason) => return ended(ExchangeError::Secret(reason)),
        };
        let WaitingRequest {
            host,
            is_encrypted,
            method,
            path_with_query,
            fields,
        } = request;
        let request = OutboundRequest {
            host,
            is_encrypted,
            method,
            path_with_query,
            fields,
            body,
            timeout: self.call.time_left(),
            authorities: find_authorities(&context.environment),
        };
        if matches!(effect, Effect::HttpWrite(_)) {
            self.ask(&context, effect, &request, &masks)?;
        }
        let Some(transport) = self.grants.as_ref().and_then(|grants| grants.services.http()) else {
            return ended(ExchangeError::Transport(TransportError::Unavailable));
        };
        self.call.requests.add(1, REQUESTS_MAX, || {
            GuestStop::limit(format!("{REQUESTS_MAX} requests"), ErrorKind::Output)
        })?;
        let record = self
            .call
            .note_request(&request.host, &request.method, request.body.len());
        let timeout = self.call.time_left();
        let receiver = transport.send(OutboundRequest { timeout, ..request }, self.call.token.clone());
        Ok(ExchangeProgress::Sent(SentRequest {
            receiver,
            masks,
            record,
        }))
    }

    /// Fills in the secrets that a request's fields name. The inner error says why one of them is not available.
    fn fill_secrets(&self, request: &mut WaitingRequest) -> Result<Result<Vec<SecretMask>, String>, GuestStop> {
        let mut masks = Vec::new();
        for (header, value) in &mut request.fields {
            let name = match secrets::find_placeholder(value) {
                None => continue,
                Some(Err(())) => return Ok(Err(format!("the header `{header}` names no secret"))),
                Some(Ok(name)) => name,
            };
            self.allow(Effect::Secret(name))?;
            let services = self.grants.as_ref().map(|grants| &grants.services);
            let secret = match services.map(|services| services.secret(name)) {
                Some(Ok(secret)) => secret,
                Some(Err(reason)) => return Ok(Err(reason)),
                None => return Ok(Err(format!("the secret `{name}` is not there"))),
            };
            let is_its_place = secret.host == request.host && secret.header == *header;
            let Some(mask) = SecretMask::new(&name, &secret.value).filter(|_| is_its_place) else {
                return Ok(Err(format!(
                    "the secret `{name}` goes to {} in the header `{}` alone",
                    secret.host, secret.header
                )));
            };
            *value = secrets::fill_placeholder(value, &name, &secret);
            masks.push(mask);
        }
        if !masks.is_empty() {
            secrets::forbid_encodings(&mut request.fields);
        }
        Ok(Ok(masks))
    }

    /// Asks the user about a request that may change something, if the policy requires it. The question shows the very
    /// request that is sent.
    fn ask(
        &self,
        context: &CallContext,
        effect: Effect,
        request: &OutboundRequest,
        masks: &[SecretMask],
    ) -> Result<(), GuestStop> {
        let title = format!("`{}` sends {} to {}", self.call.skill, request.method, request.host);
        let question = Question::new(effect, &title, &request_text::describe_request(request, masks));
        let answer = self.call.unclocked(|| consent::obtain_consent(context, &question));
        answer.map_err(|failure| GuestStop::Denied {
            effect: Box::new(effect),
            hint: failure.hint.unwrap_or(failure.message),
        })
    }
}

/// The variables of the calling command that name certificate authorities.
fn find_authorities(environment: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let named = ["SSL_CERT_FILE", "SSL_CERT_DIR"].map(|name| environment.get_key_value(name));
    let set = named.into_iter().flatten().filter(|(_, value)| !value.is_empty());
    set.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Converts an error to the code of the interface.
fn code_of(error: ExchangeError) -> wit::ErrorCode {
    use wit::ErrorCode;
    match error {
        ExchangeError::BodyUnfinished => ErrorCode::HttpRequestBodySize(None),
        ExchangeError::Encoded => ErrorCode::HttpResponseContentCoding(None),
        ExchangeError::Secret(reason) => ErrorCode::InternalError(Some(reason)),
        ExchangeError::Transport(error) => match error {
            TransportError::NoAddress => ErrorCode::DestinationNotFound,
            TransportError::ProhibitedAddress => ErrorCode::DestinationIpProhibited,
            TransportError::NotEncrypted => ErrorCode::HttpRequestDenied,
            TransportError::Refused => ErrorCode::ConnectionRefused,
            TransportError::Encryption => ErrorCode::TlsCertificateError,
            TransportError::Timeout => ErrorCode::HttpResponseTimeout,
            TransportError::BodyTooLong => ErrorCode::HttpResponseBodySize(None),
            TransportError::FieldsTooLong => ErrorCode::HttpResponseHeaderSectionSize(None),
            TransportError::Invalid => ErrorCode::HttpProtocolError,
            TransportError::Unavailable => ErrorCode::DestinationUnavailable,
        },
    }
}

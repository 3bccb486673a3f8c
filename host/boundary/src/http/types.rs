//! The data types of `wasi:http`: header fields, requests, responses and bodies that a guest handles.
//!
//! Nothing in this file sends anything. A guest serves no requests, so the types of incoming requests have no values.

use std::sync::Arc;

use wasmtime::component::Resource;
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, DynPollable};

use super::{BODY_BYTES_MAX, code_of};
use crate::bindings::outside::wasi::http::types as wit;
use crate::budget::GuestStop;
use crate::exchange::{ExchangeError, ExchangeProgress, HttpExchange, RequestBody};
use crate::store::StoreState;
use crate::streams::{GuestOutput, Input};
use crate::transport::{FIELDS_BYTES_MAX, HeaderFields};
use crate::wasi::Pollable;
use tool_core::api::ErrorKind;

/// Longest path with its query.
const PATH_BYTES_MAX: usize = 8 * 1024;

/// Request fields that concern the connection, which the host controls.
const FORBIDDEN: [&str; 14] = [
    "connection",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "forwarded",
    "via",
];

/// Header fields of a guest.
#[derive(Debug, Clone, Default)]
pub(super) struct GuestFields {
    entries: HeaderFields,
    is_immutable: bool,
}

impl GuestFields {
    fn immutable(entries: HeaderFields) -> Self {
        Self {
            entries,
            is_immutable: true,
        }
    }

    fn bytes(&self) -> usize {
        let sizes = self.entries.iter().map(|(name, value)| name.len() + value.len());
        sizes.sum()
    }

    fn add(&mut self, name: &str, value: Vec<u8>) -> Result<(), wit::HeaderError> {
        let name = field_name(name)?;
        // A line break would start another field, or another request.
        if value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
            return Err(wit::HeaderError::InvalidSyntax);
        }
        if self.bytes() + name.len() + value.len() > FIELDS_BYTES_MAX {
            return Err(wit::HeaderError::Forbidden);
        }
        self.entries.push((name, value));
        Ok(())
    }

    fn changeable(&mut self) -> Result<&mut Self, wit::HeaderError> {
        if self.is_immutable {
            Err(wit::HeaderError::Immutable)
        } else {
            Ok(self)
        }
    }
}

/// Returns a field's name in lower case if a guest may set it.
fn field_name(name: &str) -> Result<String, wit::HeaderError> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err(wit::HeaderError::InvalidSyntax);
    }
    let name = name.to_ascii_lowercase();
    if FORBIDDEN.contains(&&*name) {
        Err(wit::HeaderError::Forbidden)
    } else {
        Ok(name)
    }
}

/// A request that a guest composes.
#[derive(Debug)]
pub(super) struct OutgoingRequest {
    pub(super) method: String,
    pub(super) scheme: Option<wit::Scheme>,
    pub(super) authority: Option<String>,
    pub(super) path_with_query: Option<String>,
    pub(super) fields: HeaderFields,
    pub(super) exchange: Arc<HttpExchange>,
}

/// Timeouts that a guest sets. They are stored and never used: the time of the call bounds all requests.
#[derive(Debug, Default)]
pub(super) struct RequestOptions {
    connect: Option<u64>,
    first_byte: Option<u64>,
    between_bytes: Option<u64>,
}

/// A body that a guest writes.
struct OutgoingBody(Arc<HttpExchange>);

/// A response, until its body is taken.
struct IncomingResponse {
    status: u16,
    fields: HeaderFields,
    body: Option<Vec<u8>>,
}

/// The body of a response, until its stream is taken.
struct IncomingBody(Option<Vec<u8>>);

/// Trailers: a response has none here.
struct FutureTrailers {
    is_taken: bool,
}

impl StoreState {
    /// Writes to the body of a request.
    pub(crate) fn write_body(&self, exchange: &HttpExchange, contents: &[u8]) -> Result<(), GuestStop> {
        let mut body = exchange.body();
        if body.is_finished || body.bytes.len() + contents.len() > super::REQUEST_BODY_BYTES_MAX {
            let size = super::REQUEST_BODY_BYTES_MAX / (1024 * 1024);
            return Err(GuestStop::limit(format!("{size} MiB of a request"), ErrorKind::Output));
        }
        self.count_body(contents.len())?;
        body.bytes.extend_from_slice(contents);
        Ok(())
    }

    fn count_body(&self, bytes: usize) -> Result<(), GuestStop> {
        let size = BODY_BYTES_MAX / (1024 * 1024);
        self.call.bodies.add(bytes as u64, BODY_BYTES_MAX, || {
            GuestStop::limit(format!("{size} MiB of requests and responses"), ErrorKind::ReadLimit)
        })
    }

    fn fields(&self, fields: &Resource<wit::Fields>) -> wasmtime::Result<&GuestFields> {
        Ok(self.entry(fields)?)
    }

    fn change(
        &mut self,
        fields: &Resource<wit::Fields>,
        change: impl FnOnce(&mut GuestFields) -> Result<(), wit::HeaderError>,
    ) -> wasmtime::Result<Result<(), wit::HeaderError>> {
        self.call.check()?;
        let fields: &mut GuestFields = self.entry_mut(fields)?;
        Ok(fields.changeable().and_then(change))
    }
}

/// Ends a guest that tries to serve requests.
fn refuse_serving<T>() -> wasmtime::Result<T> {
    Err(wasmtime::Error::msg("a skill serves no requests"))
}

impl wit::Host for StoreState {
    fn http_error_code(&mut self, _: Resource<wasmtime::Error>) -> wasmtime::Result<Option<wit::ErrorCode>> {
        Ok(None)
    }
}

impl wit::HostFields for StoreState {
    fn new(&mut self) -> wasmtime::Result<Resource<wit::Fields>> {
        Ok(self.push(GuestFields::default())?)
    }

    fn from_list(
        &mut self,
        entries: Vec<(String, Vec<u8>)>,
    ) -> wasmtime::Result<Result<Resource<wit::Fields>, wit::HeaderError>> {
        self.call.check()?;
        let mut fields = GuestFields::default();
        for (name, value) in entries {
            if let Err(error) = fields.add(&name, value) {
                return Ok(Err(error));
            }
        }
        Ok(Ok(self.push(fields)?))
    }

    fn get(&mut self, fields: Resource<wit::Fields>, name: String) -> wasmtime::Result<Vec<Vec<u8>>> {
        let entries = self.fields(&fields)?.entries.iter();
        let named = entries.filter(|(known, _)| known.eq_ignore_ascii_case(&name));
        Ok(named.map(|(_, value)| value.clone()).collect())
    }

    fn has(&mut self, fields: Resource<wit::Fields>, name: String) -> wasmtime::Result<bool> {
        let entries = &self.fields(&fields)?.entries;
        Ok(entries.iter().any(|(known, _)| known.eq_ignore_ascii_case(&name)))
    }

    fn set(
        &mut self,
        fields: Resource<wit::Fields>,
        name: String,
        values: Vec<Vec<u8>>,
    ) -> wasmtime::Result<Result<(), wit::HeaderError>> {
        self.change(&fields, |fields| {
            let name = field_name(&name)?;
            fields.entries.retain(|(known, _)| *known != name);
            values.into_iter().try_for_each(|value| fields.add(&name, value))
        })
    }

    fn delete(
        &mut self,
        fields: Resource<wit::Fields>,
        name: String,
    ) -> wasmtime::Result<Result<(), wit::HeaderError>> {
        self.change(&fields, |fields| {
            fields.entries.retain(|(known, _)| !known.eq_ignore_ascii_case(&name));
            Ok(())
        })
    }

    fn append(
        &mut self,
        fields: Resource<wit::Fields>,
        name: String,
        value: Vec<u8>,
    ) -> wasmtime::Result<Result<(), wit::HeaderError>> {
        self.change(&fields, |fields| fields.add(&name, value))
    }

    fn entries(&mut self, fields: Resource<wit::Fields>) -> wasmtime::Result<Vec<(String, Vec<u8>)>> {
        Ok(self.fields(&fields)?.entries.clone())
    }

    fn clone(&mut self, fields: Resource<wit::Fields>) -> wasmtime::Result<Resource<wit::Fields>> {
        let copy = GuestFields {
            entries: self.fields(&fields)?.entries.clone(),
            is_immutable: false,
        };
        Ok(self.push(copy)?)
    }

    fn drop(&mut self, fields: Resource<wit::Fields>) -> wasmtime::Result<()> {
        self.remove::<GuestFields, _>(&fields)?;
        Ok(())
    }
}

impl wit::HostOutgoingRequest for StoreState {
    fn new(&mut self, headers: Resource<wit::Headers>) -> wasmtime::Result<Resource<wit::OutgoingRequest>> {
        let fields: GuestFields = self.remove(&headers)?;
        let exchange = HttpExchange::new(&self.call);
        Ok(self.push(OutgoingRequest {
            method: "GET".to_owned(),
            scheme: None,
            authority: None,
            path_with_query: None,
            fields: fields.entries,
            exchange,
        })?)
    }

    fn body(
        &mut self,
        request: Resource<wit::OutgoingRequest>,
    ) -> wasmtime::Result<Result<Resource<wit::OutgoingBody>, ()>> {
        let exchange = Arc::clone(&self.entry::<OutgoingRequest, _>(&request)?.exchange);
        if std::mem::replace(&mut exchange.body().is_open, true) {
            return Ok(Err(()));
        }
        Ok(Ok(self.push(OutgoingBody(exchange))?))
    }

    fn method(&mut self, request: Resource<wit::OutgoingRequest>) -> wasmtime::Result<wit::Method> {
        Ok(match &*self.entry::<OutgoingRequest, _>(&request)?.method {
            "GET" => wit::Method::Get,
            "HEAD" => wit::Method::Head,
            "POST" => wit::Method::Post,
            "PUT" => wit::Method::Put,
            "DELETE" => wit::Method::Delete,
            "OPTIONS" => wit::Method::Options,
            "PATCH" => wit::Method::Patch,
            other => wit::Method::Other(other.to_owned()),
        })
    }

    fn set_method(
        &mut self,
        request: Resource<wit::OutgoingRequest>,
        method: wit::Method,
    ) -> wasmtime::Result<Result<(), ()>> {
        let name = match method {
            wit::Method::Get => "GET",
            wit::Method::Head => "HEAD",
            wit::Method::Post => "POST",
            wit::Method::Put => "PUT",
            wit::Method::Delete => "DELETE",
            wit::Method::Options => "OPTIONS",
            wit::Method::Patch => "PATCH",
            // `CONNECT` would open a tunnel to anywhere, and `TRACE` repeats secrets. The meaning of other methods is
            // up to the server.
            wit::Method::Connect | wit::Method::Trace | wit::Method::Other(_) => return Ok(Err(())),
        };
        name.clone_into(&mut self.entry_mut::<OutgoingRequest, _>(&request)?.method);
        Ok(Ok(()))
    }

    fn path_with_query(&mut self, request: Resource<wit::OutgoingRequest>) -> wasmtime::Result<Option<String>> {
        Ok(self.entry::<OutgoingRequest, _>(&request)?.path_with_query.clone())
    }

    fn set_path_with_query(
        &mut self,
        request: Resource<wit::OutgoingRequest>,
        path: Option<String>,
    ) -> wasmtime::Result<Result<(), ()>> {
        let is_path = |path: &str| {
            let is_visible = |byte: u8| byte.is_ascii_graphic() && byte != b'#' && byte != b'\\';
            path.starts_with('/') && path.len() <= PATH_BYTES_MAX && path.bytes().all(is_visible)
        };
        // A query without a path belongs to the root.
        let path = path.map(|path| {
            if path.starts_with('?') {
                format!("/{path}")
            } else {
                path
            }
        });
        if path.as_deref().is_some_and(|path| !path.is_empty() && !is_path(path)) {
            return Ok(Err(()));
        }
        self.entry_mut::<OutgoingRequest, _>(&request)?.path_with_query = path.filter(|path| !path.is_empty());
        Ok(Ok(()))
    }

    fn scheme(&mut self, request: Resource<wit::OutgoingRequest>) -> wasmtime::Result<Option<wit::Scheme>> {
        Ok(self.entry::<OutgoingRequest, _>(&request)?.scheme.clone())
    }

    fn set_scheme(
        &mut self,
        request: Resource<wit::OutgoingRequest>,
        scheme: Option<wit::Scheme>,
    ) -> wasmtime::Result<Result<(), ()>> {
        if matches!(scheme, Some(wit::Scheme::Other(_))) {
            return Ok(Err(()));
        }
        self.entry_mut::<OutgoingRequest, _>(&request)?.scheme = scheme;
        Ok(Ok(()))
    }

    fn authority(&mut self, request: Resource<wit::OutgoingRequest>) -> wasmtime::Result<Option<String>> {
        Ok(self.entry::<OutgoingRequest, _>(&request)?.authority.clone())
    }

    fn set_authority(
        &mut self,
        request: Resource<wit::OutgoingRequest>,
        authority: Option<String>,
    ) -> wasmtime::Result<Result<(), ()>> {
        let is_long = authority
            .as_ref()
            .is_some_and(|authority| authority.len() > PATH_BYTES_MAX);
        if is_long {
            return Ok(Err(()));
        }
        self.entry_mut::<OutgoingRequest, _>(&request)?.authority = authority;
        Ok(Ok(()))
    }

    fn headers(&mut self, request: Resource<wit::OutgoingRequest>) -> wasmtime::Result<Resource<wit::Headers>> {
        let fields = self.entry::<OutgoingRequest, _>(&request)?.fields.clone();
        Ok(self.push(GuestFields::immutable(fields))?)
    }

    fn drop(&mut self, request: Resource<wit::OutgoingRequest>) -> wasmtime::Result<()> {
        self.remove::<OutgoingRequest, _>(&request)?;
        Ok(())
    }
}

impl wit::HostRequestOptions for StoreState {
    fn new(&mut self) -> wasmtime::Result<Resource<wit::RequestOptions>> {
        Ok(self.push(RequestOptions::default())?)
    }

    fn connect_timeout(&mut self, options: Resource<wit::RequestOptions>) -> wasmtime::Result<Option<u64>> {
        Ok(self.entry::<RequestOptions, _>(&options)?.connect)
    }

    fn set_connect_timeout(
        &mut self,
        options: Resource<wit::RequestOptions>,
        duration: Option<u64>,
    ) -> wasmtime::Result<Result<(), ()>> {
        self.entry_mut::<RequestOptions, _>(&options)?.connect = duration;
        Ok(Ok(()))
    }

    fn first_byte_timeout(&mut self, options: Resource<wit::RequestOptions>) -> wasmtime::Result<Option<u64>> {
        Ok(self.entry::<RequestOptions, _>(&options)?.first_byte)
    }

    fn set_first_byte_timeout(
        &mut self,
        options: Resource<wit::RequestOptions>,
        duration: Option<u64>,
    ) -> wasmtime::Result<Result<(), ()>> {
        self.entry_mut::<RequestOptions, _>(&options)?.first_byte = duration;
        Ok(Ok(()))
    }

    fn between_bytes_timeout(&mut self, options: Resource<wit::RequestOptions>) -> wasmtime::Result<Option<u64>> {
        Ok(self.entry::<RequestOptions, _>(&options)?.between_bytes)
    }

    fn set_between_bytes_timeout(
        &mut self,
        options: Resource<wit::RequestOptions>,
        duration: Option<u64>,
    ) -> wasmtime::Result<Result<(), ()>> {
        self.entry_mut::<RequestOptions, _>(&options)?.between_bytes = duration;
        Ok(Ok(()))
    }

    fn drop(&mut self, options: Resource<wit::RequestOptions>) -> wasmtime::Result<()> {
        self.remove::<RequestOptions, _>(&options)?;
        Ok(())
    }
}

impl wit::HostOutgoingBody for StoreState {
    fn write(&mut self, body: Resource<wit::OutgoingBody>) -> wasmtime::Result<Result<Resource<DynOutputStream>, ()>> {
        let exchange = Arc::clone(&self.entry::<OutgoingBody, _>(&body)?.0);
        Ok(Ok(self.push(GuestOutput::Body { exchange })?))
    }

    fn finish(
        &mut self,
        body: Resource<wit::OutgoingBody>,
        trailers: Option<Resource<wit::Trailers>>,
    ) -> wasmtime::Result<Result<(), wit::ErrorCode>> {
        self.call.check()?;
        let OutgoingBody(exchange) = self.remove(&body)?;
        if let Some(trailers) = trailers {
            self.remove::<GuestFields, _>(&trailers)?;
        }
        exchange.body().is_finished = true;
        self.send_complete(&exchange)?;
        Ok(Ok(()))
    }

    fn drop(&mut self, body: Resource<wit::OutgoingBody>) -> wasmtime::Result<()> {
        let OutgoingBody(exchange) = self.remove(&body)?;
        *exchange.body() = RequestBody {
            bytes: Vec::new(),
            is_open: true,
            is_finished: true,
        };
        *exchange.progress() = ExchangeProgress::Ended(Err(ExchangeError::BodyUnfinished));
        Ok(())
    }
}

type FutureResponse = Option<Result<Result<Resource<wit::IncomingResponse>, wit::ErrorCode>, ()>>;

impl wit::HostFutureIncomingResponse for StoreState {
    fn subscribe(&mut self, future: Resource<wit::FutureIncomingResponse>) -> wasmtime::Result<Resource<DynPollable>> {
        let exchange = Arc::clone(self.entry::<Arc<HttpExchange>, _>(&future)?);
        Ok(self.push(Pollable::Response(exchange))?)
    }

    fn get(&mut self, future: Resource<wit::FutureIncomingResponse>) -> wasmtime::Result<FutureResponse> {
        self.call.check()?;
        let exchange = Arc::clone(self.entry::<Arc<HttpExchange>, _>(&future)?);
        if !exchange.is_ready() {
            return Ok(None);
        }
        let ExchangeProgress::Ended(ended) = exchange.take() else {
            return Ok(Some(Err(())));
        };
        Ok(Some(Ok(match ended {
            Ok(response) => {
                self.count_body(response.body.len())?;
                Ok(self.push(IncomingResponse {
                    status: response.status,
                    fields: response.fields,
                    body: Some(response.body),
                })?)
            }
            Err(error) => Err(code_of(error)),
        })))
    }

    fn drop(&mut self, future: Resource<wit::FutureIncomingResponse>) -> wasmtime::Result<()> {
        self.remove::<Arc<HttpExchange>, _>(&future)?;
        Ok(())
    }
}

impl wit::HostIncomingResponse for StoreState {
    fn status(&mut self, response: Resource<wit::IncomingResponse>) -> wasmtime::Result<u16> {
        Ok(self.entry::<IncomingResponse, _>(&response)?.status)
    }

    fn headers(&mut self, response: Resource<wit::IncomingResponse>) -> wasmtime::Result<Resource<wit::Headers>> {
        let fields = self.entry::<IncomingResponse, _>(&response)?.fields.clone();
        Ok(self.push(GuestFields::immutable(fields))?)
    }

    fn consume(
        &mut self,
        response: Resource<wit::IncomingResponse>,
    ) -> wasmtime::Result<Result<Resource<wit::IncomingBody>, ()>> {
        match self.entry_mut::<IncomingResponse, _>(&response)?.body.take() {
            Some(body) => Ok(Ok(self.push(IncomingBody(Some(body)))?)),
            None => Ok(Err(())),
        }
    }

    fn drop(&mut self, response: Resource<wit::IncomingResponse>) -> wasmtime::Result<()> {
        self.remove::<IncomingResponse, _>(&response)?;
        Ok(())
    }
}

impl wit::HostIncomingBody for StoreState {
    fn stream(&mut self, body: Resource<wit::IncomingBody>) -> wasmtime::Result<Result<Resource<DynInputStream>, ()>> {
        match self.entry_mut::<IncomingBody, _>(&body)?.0.take() {
            Some(bytes) => Ok(Ok(self.push(Input::Body { bytes, offset: 0 })?)),
            None => Ok(Err(())),
        }
    }

    fn finish(&mut self, body: Resource<wit::IncomingBody>) -> wasmtime::Result<Resource<wit::FutureTrailers>> {
        self.remove::<IncomingBody, _>(&body)?;
        Ok(self.push(FutureTrailers { is_taken: false })?)
    }

    fn drop(&mut self, body: Resource<wit::IncomingBody>) -> wasmtime::Result<()> {
        self.remove::<IncomingBody, _>(&body)?;
        Ok(())
    }
}

type Trailers = Option<Result<Result<Option<Resource<wit::Trailers>>, wit::ErrorCode>, ()>>;

impl wit::HostFutureTrailers for StoreState {
    fn subscribe(&mut self, _: Resource<wit::FutureTrailers>) -> wasmtime::Result<Resource<DynPollable>> {
        Ok(self.push(Pollable::Ready)?)
    }

    fn get(&mut self, trailers: Resource<wit::FutureTrailers>) -> wasmtime::Result<Trailers> {
        let trailers: &mut FutureTrailers = self.entry_mut(&trailers)?;
        let is_first = !std::mem::replace(&mut trailers.is_taken, true);
        Ok(Some(if is_first { Ok(Ok(None)) } else { Err(()) }))
    }

    fn drop(&mut self, trailers: Resource<wit::FutureTrailers>) -> wasmtime::Result<()> {
        self.remove::<FutureTrailers, _>(&trailers)?;
        Ok(())
    }
}

impl wit::HostIncomingRequest for StoreState {
    fn method(&mut self, _: Resource<wit::IncomingRequest>) -> wasmtime::Result<wit::Method> {
        refuse_serving()
    }

    fn path_with_query(&mut self, _: Resource<wit::IncomingRequest>) -> wasmtime::Result<Option<String>> {
        refuse_serving()
    }

    fn scheme(&mut self, _: Resource<wit::IncomingRequest>) -> wasmtime::Result<Option<wit::Scheme>> {
        refuse_serving()
    }

    fn authority(&mut self, _: Resource<wit::IncomingRequest>) -> wasmtime::Result<Option<String>> {
        refuse_serving()
    }

    fn headers(&mut self, _: Resource<wit::IncomingRequest>) -> wasmtime::Result<Resource<wit::Headers>> {
        refuse_serving()
    }

    fn consume(
        &mut self,
        _: Resource<wit::IncomingRequest>,
    ) -> wasmtime::Result<Result<Resource<wit::IncomingBody>, ()>> {
        refuse_serving()
    }

    fn drop(&mut self, _: Resource<wit::IncomingRequest>) -> wasmtime::Result<()> {
        refuse_serving()
    }
}

impl wit::HostResponseOutparam for StoreState {
    fn send_informational(
        &mut self,
        _: Resource<wit::ResponseOutparam>,
        _: u16,
        _: Resource<wit::Headers>,
    ) -> wasmtime::Result<Result<(), wit::ErrorCode>> {
        refuse_serving()
    }

    fn set(
        &mut self,
        _: Resource<wit::ResponseOutparam>,
        _: Result<Resource<wit::OutgoingResponse>, wit::ErrorCode>,
    ) -> wasmtime::Result<()> {
        refuse_serving()
    }

    fn drop(&mut self, _: Resource<wit::ResponseOutparam>) -> wasmtime::Result<()> {
        refuse_serving()
    }
}

impl wit::HostOutgoingResponse for StoreState {
    fn new(&mut self, _: Resource<wit::Headers>) -> wasmtime::Result<Resource<wit::OutgoingResponse>> {
        refuse_serving()
    }

    fn status_code(&mut self, _: Resource<wit::OutgoingResponse>) -> wasmtime::Result<u16> {
        refuse_serving()
    }

    fn set_status_code(&mut self, _: Resource<wit::OutgoingResponse>, _: u16) -> wasmtime::Result<Result<(), ()>> {
        refuse_serving()
    }

    fn headers(&mut self, _: Resource<wit::OutgoingResponse>) -> wasmtime::Result<Resource<wit::Headers>> {
        refuse_serving()
    }

    fn body(
        &mut self,
        _: Resource<wit::OutgoingResponse>,
    ) -> wasmtime::Result<Result<Resource<wit::OutgoingBody>, ()>> {
        refuse_serving()
    }

    fn drop(&mut self, _: Resource<wit::OutgoingResponse>) -> wasmtime::Result<()> {
        refuse_serving()
    }
}

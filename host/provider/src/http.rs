//! The transport, the only place of the engine that opens outbound connections.
//!
//! It owns sockets, time and retries for all wires, and knows nothing of their forms. A request is tried again only
//! before its first output. Cancellation drops the connection at once, at any point of the exchange. Redirects are
//! never followed, loopback is never reached through a proxy, and the key goes into one header and nowhere else.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::error::Error as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::stream;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION, USER_AGENT};
use reqwest::{Client, Method, RequestBuilder, Response};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::address;
use super::answer_origin;
use super::body::{AnswerBody, FrameTap};
use super::client::build_client;
use super::context_size::{
    self, cut_in_silence, drops_tools, prompt_text, template_place, tokens_counted, too_long, url_origin,
};
use super::credentials::KeyHolder;
use super::failure::{FailureClass, ProviderFailure, one_line, without_credentials};
use super::model_facts::ModelFacts;
use super::model_list::parse_models;
use super::receiver::{BrokenConnection, OtherUser, ReceiverCheck};
use super::redact::{KeyShield, scrub_text};
use super::wire::{Adaptation, AnswerProgress, Wire};
use super::{EventStream, Message, ModelRequest, Options, Provider, ProviderError, ProviderEvent, retry, retry_after};
use crate::context_size::PROVIDER_CONTEXT_SECONDS_MAX;
use crate::limits;
use crate::receiver::PROVIDER_CONNECT_SECONDS_MAX;
use crate::sse::PROVIDER_ERROR_BYTES_MAX;
use tool_config::{ProviderSettings, TokenPrice};
use tool_core::api::{ErrorKind, Problem, ProviderName};

/// How long an answer is read after its end mark. The usage report comes after the end, but some servers then never
/// close the connection.
pub(crate) const PROVIDER_CLOSING_SECONDS_MAX: u64 = 2;

/// How many times one request may be changed into something that the server accepts.
const ADAPTATIONS_MAX: u32 = 4;

/// Smallest context in tokens that is believed when an error names one: one packet needs more.
const LEARNED_CONTEXT_TOKENS_MIN: u64 = 2_000;

const TOOLS_DESCRIBED: &str = "The chat template of this model leaves tools out: they are described in the instructions, \
    and calls that the model prints as text count.";

/// What a server tells about the context of a model.
pub(super) enum ContextAnswer {
    Tokens(u64),
    /// The server tells the size after a request to the address `load` has loaded the model.
    NotLoaded {
        load: String,
    },
    Unknown,
}

impl ContextAnswer {
    pub(super) fn tokens(self) -> Option<u64> {
        match self {
            Self::Tokens(tokens) => Some(tokens),
            Self::NotLoaded { .. } | Self::Unknown => None,
        }
    }
}

/// A provider that is reached over HTTP.
pub(super) struct HttpProvider {
    settings: ProviderSettings,
    credentials: KeyHolder,
    options: Options,
    wire: Box<dyn Wire>,
    client: Client,
    check: ReceiverCheck,
    /// See [`Provider::context_tokens`].
    context: OnceCell<Option<u64>>,
    /// Set by a probe.
    tap: Option<FrameTap>,
    /// Names server, wire and model in the data that goes back to them alone.
    tag: String,
    /// True once a notice has told the user that tools are described to the model.
    told_described: AtomicBool,
    /// True once the server has failed to count tokens.
    has_no_tokenizer: AtomicBool,
    /// True once a notice has told the user that the prompt does not fit into the context.
    alarmed: AtomicBool,
}

impl HttpProvider {
    pub(super) fn new(
        settings: &ProviderSettings,
        options: &Options,
        wire: Box<dyn Wire>,
        check: ReceiverCheck,
    ) -> Result<Self, Problem> {
        let provider = Self {
            client: build_client(settings, &options.environment, &check)?,
            check,
            settings: settings.clone(),
            credentials: KeyHolder::new(settings, options.key_command.clone()),
            options: Options {
                first_byte: settings.patience.first_byte.unwrap_or(options.first_byte),
                idle: settings.patience.idle.unwrap_or(options.idle),
                ..options.clone()
            },
            wire,
            context: OnceCell::new(),
            tap: None,
            tag: answer_origin::origin_tag(settings),
            told_described: AtomicBool::new(false),
            has_no_tokenizer: AtomicBool::new(false),
            alarmed: AtomicBool::new(false),
        };
        if let Some(file) = &options.learned {
            provider.wire.learned().recall(file, &provider.tag, unix_seconds());
        }
        // A wrong configuration is reported now rather than at the first request.
        provider.headers()?;
        Ok(provider)
    }

    /// A request to a path below the base URL, with the key.
    pub(super) async fn request(&self, method: Method, path: &str) -> Result<RequestBuilder, Problem> {
        self.request_to(method, &address::join_url(&self.settings.url, path))
            .await
    }

    /// A request to an address of the same server, with the key.
    pub(super) async fn request_to(&self, method: Method, url: &str) -> Result<RequestBuilder, Problem> {
        self.credentials.prepare().await?;
        Ok(self.client.request(method, url).headers(self.headers()?))
    }

    pub(super) fn wire(&self) -> &dyn Wire {
        self.wire.as_ref()
    }

    /// The settings with the current key.
    pub(super) fn settings(&self) -> Arc<ProviderSettings> {
        self.credentials.settings()
    }

    /// The conversation in a form that this server takes.
    fn own<'m>(&self, messages: &'m [Message]) -> Cow<'m, [Message]> {
        answer_origin::without_others(messages, &self.tag, self.wire.id_form())
    }

    /// True once something was sent to a server on this machine without knowing which user receives it.
    pub(super) fn receiver_is_unknown(&self) -> bool {
        self.check.is_unknown()
    }

    /// This provider, set up to keep the frames of its answers for a probe.
    pub(super) fn tapped(self, tap: FrameTap) -> Self {
        Self { tap: Some(tap), ..self }
    }

    /// Stores what was learned about the model, on a thread that may wait for the disk.
    fn keep_learned(&self) {
        let learned = self.wire.learned();
        if let Some(file) = self.options.learned.clone()
            && learned.take_new()
        {
            let (learned, tag) = (Arc::clone(learned), self.tag.clone());
            tokio::task::spawn_blocking(move || learned.keep(&file, &tag, unix_seconds()));
        }
    }

    /// The sentence as a notice, unless the user already had one.
    fn alarm(&self, sentence: Option<String>) -> Option<ProviderEvent> {
        let sentence = sentence?;
        let first = !self.alarmed.swap(true, Ordering::Relaxed);
        first.then_some(ProviderEvent::Notice(sentence))
    }

    /// Tokens of a text, counted by the server: llama.cpp reads `content`, vLLM `prompt`.
    async fn ask_tokenizer(&self, text: &str) -> Option<u64> {
        let url = format!("{}/tokenize", url_origin(&self.settings.url)?);
        let body = json!({"model": self.settings.model, "content": text, "prompt": text});
        let bound = limits::seconds(PROVIDER_CONTEXT_SECONDS_MAX);
        tokens_counted(&self.post_json(&url, &body, bound).await?)
    }

    /// Asks the server for the model's context size. If the server tells it only of loaded models, loads the model first, as
    /// the first request would.
    async fn find_context_size(&self) -> Option<u64> {
        match self.ask_context_size().await {
            ContextAnswer::NotLoaded { load } => {
                self.post_json(
                    &load,
                    &json!({"model": self.settings.model, "stream": false}),
                    self.options.first_byte,
                )
                .await?;
                self.ask_context_size().await.tokens()
            }
            answer => answer.tokens(),
        }
    }

    /// Waits at most 2 seconds for each answer.
    pub(super) async fn ask_context_size(&self) -> ContextAnswer {
        let bound = limits::seconds(PROVIDER_CONTEXT_SECONDS_MAX);
        let asked = timeout(bound, self.ask_context_places(bound)).await;
        asked.ok().flatten().unwrap_or(ContextAnswer::Unknown)
    }

    /// Sends JSON and returns the server's JSON; `None` if the server refuses.
    pub(super) async fn post_json(&self, url: &str, body: &Value, bound: Duration) -> Option<Value> {
        let builder = self.request_to(Method::POST, url).await.ok()?;
        let builder = builder.header(CONTENT_TYPE, "application/json").body(body.to_string());
        serde_json::from_str(&fetch_text(builder, bound).await.ok()?).ok()
    }

    async fn ask_context_places(&self, bound: Duration) -> Option<ContextAnswer> {
        for place in context_size::list_places(&self.settings, self.wire.models_path())? {
            let builder = self.request_to(Method::GET, &place.url).await.ok()?;
            match fetch_text(builder, bound).await {
                Ok(body) => {
                    let mut size = place.size_in(&body, &self.settings.model);
                    if self.settings.name == ProviderName::Hosted {
                        // A vendor's list changes rarely, so it is asked again only when the facts expire.
                        match size {
                            Some(tokens) => self.wire.learned().learn_context(tokens),
                            None => self.wire.learned().learn_no_context(),
                        }
                        self.keep_learned();
                    }
                    if let Some(url) = template_place(&self.settings, &body) {
                        // The properties give the size too, which some lists do not.
                        let properties = self.ask_template(&url, bound).await;
                        size = size.or_else(|| place.size_in(&properties?, &self.settings.model));
                    }
                    if let Some(tokens) = size {
                        return Some(ContextAnswer::Tokens(tokens));
                    }
                    if let Some(load) = place.load.filter(|_| body.contains("\"models\"")) {
                        return Some(ContextAnswer::NotLoaded { load });
                    }
                }
                // There is no server, or it is not trusted. The other places are on the same server and would not
                // answer either.
                Err(failure)
                    if matches!(
                        failure.class,
                        FailureClass::Refused
                            | FailureClass::Unreachable
                            | FailureClass::UnknownIssuer
                            | FailureClass::OtherUser
                            | FailureClass::Timeout
                    ) =>
                {
                    return None;
                }
                Err(_) => {}
            }
        }
        None
    }

    /// Asks a server whether its chat template leaves tools out. If so, the instructions describe the tools from here on.
    /// Returns the properties that the server has sent.
    async fn ask_template(&self, url: &str, bound: Duration) -> Option<String> {
        let builder = self.request_to(Method::GET, url).await.ok()?;
        let properties = fetch_text(builder, bound).await.ok()?;
        if drops_tools(&properties) {
            self.wire.describe_tools();
        }
        Some(properties)
    }

    fn headers(&self) -> Result<HeaderMap, Problem> {
        let settings = self.settings();
        let key = settings.api_key.as_ref().map(|key| key.expose().trim());
        let key = key.filter(|key| !key.is_empty());
        let secret = |value: &str| {
            let mut value = HeaderValue::from_str(value).map_err(|_| unusable_key(&settings))?;
            value.set_sensitive(true);
            Ok(value)
        };
        let mut headers = HeaderMap::new();
        headers.insert(
            USER_AGENT,
            HeaderValue::from_static(concat!("tool/", env!("CARGO_PKG_VERSION"))),
        );
        let own_header = settings.key_header.as_deref();
        for (name, value) in self.wire.headers(key.filter(|_| own_header.is_none())) {
            headers.insert(HeaderName::from_static(name), secret(&value)?);
        }
        if let (Some(name), Some(key)) = (own_header, key) {
            let value = match name {
                "authorization" => format!("Bearer {key}"),
                _ => key.to_owned(),
            };
            headers.insert(header_name(name, &settings)?, secret(&value)?);
        }
        for header in &settings.options.headers {
            headers.insert(header_name(&header.name, &settings)?, secret(header.value.expose())?);
        }
        Ok(headers)
    }
}

impl Provider for HttpProvider {
    fn name(&self) -> &'static str {
        self.settings.name.name()
    }

    fn model(&self) -> &str {
        &self.settings.model
    }

    fn stream<'a>(&'a self, request: ModelRequest<'a>, cancel: CancellationToken) -> EventStream<'a> {
        let mut exchange = RequestExchange {
            provider: self,
            request,
            cancel,
            ready: VecDeque::new(),
            shield: KeyShield::new(&self.settings),
            phase: ExchangePhase::Key,
            attempt: 1,
            begun: Instant::now(),
            told_loading: false,
            adaptations: 0,
            known_before: None,
            without_thinking: None,
            key_renewed: false,
            put_out: false,
        };
        if let Some(context) = self.context.get().copied().flatten() {
            let notice = self.alarm(too_long(request.estimated_tokens(), context));
            exchange.ready.extend(notice.map(Ok));
        }
        if self.wire.describes_tools()
            && !request.tools.is_empty()
            && !self.told_described.swap(true, Ordering::Relaxed)
        {
            let notice = ProviderEvent::Notice(TOOLS_DESCRIBED.to_owned());
            exchange.ready.push_back(Ok(notice));
        }
        Box::pin(stream::unfold(exchange, |mut exchange| async move {
            let item = exchange.next().await?;
            Some((item, exchange))
        }))
    }

    fn prepare<'a>(&'a self) -> Pin<Box<dyn Future<Output = Result<(), Problem>> + Send + 'a>> {
        Box::pin(self.credentials.prepare())
    }

    fn listed_price<'a>(&'a self) -> Pin<Box<dyn Future<Output = Option<TokenPrice>> + Send + 'a>> {
        Box::pin(async {
            let settings = self.settings();
            if !settings.quirks.has_model_list {
                return None;
            }
            let builder = self.request(Method::GET, self.wire.models_path()).await.ok()?;
            let list = fetch_text(builder, limits::seconds(PROVIDER_CONTEXT_SECONDS_MAX))
                .await
                .ok()?;
            let mut models = parse_models(&list).into_iter();
            models.find(|listed| listed.id == settings.model)?.token_price()
        })
    }

    fn count_tokens<'a>(
        &'a self,
        request: &'a ModelRequest<'_>,
    ) -> Pin<Box<dyn Future<Output = Option<u64>> + Send + 'a>> {
        Box::pin(async move {
            if self.settings.name != ProviderName::Local || self.has_no_tokenizer.load(Ordering::Relaxed) {
                return None;
            }
            let count = self.ask_tokenizer(&prompt_text(&self.wire.body(request))).await;
            self.has_no_tokenizer.store(count.is_none(), Ordering::Relaxed);
            count
        })
    }

    fn context_tokens<'a>(&'a self) -> Pin<Box<dyn Future<Output = Option<u64>> + Send + 'a>> {
        Box::pin(async {
            if self.settings.context_tokens.is_some() {
                return self.settings.context_tokens;
            }
            let learned = self.wire.learned();
            if self.settings.name == ProviderName::Hosted
                && (learned.context_tokens().is_some() || learned.facts().has_no_listed_context)
            {
                return learned.context_tokens();
            }
            // A server that tells the size is more reliable than stored facts: its model may have been loaded with
            // another one.
            let told = *self.context.get_or_init(|| self.find_context_size()).await;
            told.or_else(|| learned.context_tokens())
        })
    }
}

/// One request with all its attempts.
struct RequestExchange<'a> {
    provider: &'a HttpProvider,
    request: ModelRequest<'a>,
    cancel: CancellationToken,
    ready: VecDeque<Result<ProviderEvent, ProviderError>>,
    shield: KeyShield,
    phase: ExchangePhase<'a>,
    /// Number of the attempt, from 1.
    attempt: u32,
    begun: Instant,
    /// True once the user knows that the server is loading the model.
    told_loading: bool,
    adaptations: u32,
    /// What was known about the model before this request was changed.
    known_before: Option<ModelFacts>,
    /// The messages without the thinking of earlier answers, once the server has refused it.
    without_thinking: Option<Vec<Message>>,
    /// True once the program that prints the key has run again for this request.
    key_renewed: bool,
    /// True once any part of the answer was sent on: from then on nothing is tried again.
    put_out: bool,
}

enum ExchangePhase<'a> {
    /// The key is not known yet.
    Key,
    /// The key was refused, and the program that prints it may now print another.
    RenewKey,
    Send,
    Wait(Duration),
    Read(Box<AnswerReading<'a>>),
    Over,
}

/// An answer that is being read.
struct AnswerReading<'a> {
    response: Response,
    body: AnswerBody<'a>,
    first_byte_until: Instant,
    last_frame: Instant,
}

impl RequestExchange<'_> {
    async fn next(&mut self) -> Option<Result<ProviderEvent, ProviderError>> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Some(item);
            }
            if matches!(self.phase, ExchangePhase::Over) {
                return None;
            }
            let cancel = self.cancel.clone();
            let step = tokio::select! {
                biased;
                () = cancel.cancelled() => {
                    // Dropping the response closes the connection.
                    self.phase = ExchangePhase::Over;
                    return Some(Err(ProviderError::Cancelled));
                }
                step = self.step() => step,
            };
            if let Err(failure) = step {
                self.fail(&failure);
            }
        }
    }

    async fn step(&mut self) -> Result<(), ProviderFailure> {
        match &mut self.phase {
            ExchangePhase::Key => {
                let prepared = self.provider.credentials.prepare().await;
                self.send_with_key(prepared);
            }
            ExchangePhase::RenewKey => {
                let refused = self.provider.settings().api_key.clone();
                let renewed = self.provider.credentials.renew(refused.as_ref()).await;
                self.send_with_key(renewed);
            }
            ExchangePhase::Send => {
                let messages = self.without_thinking.as_deref();
                let reading = send_request(self.provider, self.request, messages).await?;
                self.phase = ExchangePhase::Read(Box::new(reading));
            }
            ExchangePhase::Wait(wait) => {
                sleep(*wait).await;
                self.phase = ExchangePhase::Send;
            }
            ExchangePhase::Read(reading) => {
                let mut events = Vec::new();
                let result = reading.advance(&mut events, self.provider.options.idle).await;
                if result.is_err() && (self.put_out || !events.is_empty()) {
                    reading.body.salvage(&mut events);
                }
                self.put_out |= !events.is_empty();
                self.ready_with_alarm(events);
                if result? {
                    // The request that was changed has been answered.
                    if self.known_before.take().is_some() {
                        self.provider.wire.learned().mark_new();
                    }
                    self.provider.keep_learned();
                    self.phase = ExchangePhase::Over;
                }
            }
            ExchangePhase::Over => {}
        }
        Ok(())
    }

    /// Sends the request with the current key, or ends it if there is no key.
    fn send_with_key(&mut self, prepared: Result<(), Problem>) {
        match prepared {
            Ok(()) => {
                self.shield = KeyShield::new(&self.provider.settings());
                self.phase = ExchangePhase::Send;
            }
            Err(problem) => {
                self.ready.push_back(Err(ProviderError::Failed(problem)));
                self.phase = ExchangePhase::Over;
            }
        }
    }

    fn ready_with_alarm(&mut self, events: Vec<ProviderEvent>) {
        for event in join_text(events) {
            let event = match event {
                ProviderEvent::Notice(said) => ProviderEvent::Notice(scrub_text(&said, &self.provider.settings())),
                ProviderEvent::Stop { reason, opaque } => ProviderEvent::Stop {
                    reason,
                    opaque: answer_origin::tag_opaque(opaque, &self.provider.tag),
                },
                event => event,
            };
            let sentence = match &event {
                ProviderEvent::Usage(usage) => cut_in_silence(self.request.estimated_tokens(), usage),
                _ => None,
            };
            self.ready.extend(self.shield.pass(event).into_iter().map(Ok));
            self.ready.extend(self.provider.alarm(sentence).map(Ok));
        }
    }

    /// Decides what follows a failure: the same request again, later, or changed, or the end.
    fn fail(&mut self, failure: &ProviderFailure) {
        let settings = &self.provider.settings();
        if failure.status == Some(401) && self.provider.credentials.has_command() && !self.key_renewed && !self.put_out
        {
            self.key_renewed = true;
            self.phase = ExchangePhase::RenewKey;
            return;
        }
        if failure.class == FailureClass::Overflow
            && let Some(tokens) = failure.context_tokens
            && is_plausible_context(tokens, self.request.estimated_tokens())
        {
            self.provider.wire.learned().learn_context(tokens);
            self.provider.keep_learned();
        }
        let may_adapt = !self.put_out && self.adaptations < ADAPTATIONS_MAX;
        let wire = &self.provider.wire;
        let known = wire.learned().facts();
        let adapt = || wire.adapt(failure).or_else(|| wire.learned().adapt(failure));
        if let Some(adaptation) = may_adapt.then(adapt).flatten() {
            if let Adaptation::Announced(sentence) = adaptation {
                self.ready.push_back(Ok(ProviderEvent::Notice(sentence.to_owned())));
            }
            self.known_before.get_or_insert(known);
            self.adaptations += 1;
            self.phase = ExchangePhase::Send;
            return;
        }
        if !self.put_out && self.without_thinking.is_none() && failure.is_about_history() {
            let own = self.provider.own(self.request.messages);
            self.without_thinking = answer_origin::without_thinking(&own);
            if self.without_thinking.is_some() {
                tracing::debug!(said = failure.said, "the thinking of earlier answers was refused");
                self.ready.push_back(Ok(ProviderEvent::ThinkingRefused));
                self.phase = ExchangePhase::Send;
                return;
            }
        }
        if failure.is_loading() && !self.put_out && self.begun.elapsed() < self.provider.options.first_byte {
            if !std::mem::replace(&mut self.told_loading, true) {
                let bound = format_seconds(self.provider.options.first_byte);
                let reason = format!("The server is loading the model; waiting for it for up to {bound}");
                self.ready.push_back(Ok(ProviderEvent::Waiting { reason }));
            }
            self.phase = ExchangePhase::Wait(self.provider.options.retry_base);
            return;
        }
        let wait = retry::retry_delay(failure, self.attempt, self.provider.options.retry_base, random_jitter());
        match wait.filter(|_| !self.put_out) {
            Some(wait) => {
                self.attempt += 1;
                self.ready.push_back(Ok(ProviderEvent::Waiting {
                    reason: format!(
                        "{}; trying again in {} (attempt {} of {})",
                        failure.reason(settings),
                        format_seconds(wait),
                        self.attempt,
                        limits::PROVIDER_ATTEMPTS_MAX
                    ),
                }));
                self.phase = ExchangePhase::Wait(wait);
            }
            None => {
                if let Some(known) = self.known_before.take() {
                    self.provider.wire.learned().restore(known);
                }
                let problem = failure.problem(settings, self.request.estimated_tokens());
                tracing::debug!(code = %problem.kind, message = problem.message, "a request failed");
                self.ready.extend(self.shield.end().into_iter().map(Ok));
                self.ready.push_back(Err(ProviderError::Failed(problem)));
                self.phase = ExchangePhase::Over;
            }
        }
    }
}

/// Pieces of text that arrived together are joined, so that the cost of each event is paid once.
fn join_text(events: Vec<ProviderEvent>) -> Vec<ProviderEvent> {
    let mut joined: Vec<ProviderEvent> = Vec::new();
    for event in events {
        match (joined.last_mut(), event) {
            (Some(ProviderEvent::Text(text)), ProviderEvent::Text(more))
            | (Some(ProviderEvent::Reasoning(text)), ProviderEvent::Reasoning(more)) => text.push_str(&more),
            (_, event) => joined.push(event),
        }
    }
    joined
}

/// Sends a request and reads the head of the answer. `messages` replaces those of the request.
async fn send_request<'a>(
    provider: &'a HttpProvider,
    request: ModelRequest<'a>,
    messages: Option<&[Message]>,
) -> Result<AnswerReading<'a>, ProviderFailure> {
    let first_byte_until = Instant::now() + provider.options.first_byte;
    let messages = messages.map_or_else(|| provider.own(request.messages), Cow::Borrowed);
    let sent = ModelRequest {
        messages: &messages,
        ..request
    };
    let builder = provider
        .request(Method::POST, &provider.wire.path())
        .await
        .map_err(|problem| ProviderFailure::new(FailureClass::Rejected, problem.message))?
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "text/event-stream")
        .body(provider.wire.body(&sent).to_string());
    let response = match timeout_at(first_byte_until, builder.send()).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => return Err(from_transport(&error)),
        Err(_) => return Err(silence_failure("no answer", provider.options.first_byte)),
    };
    let response = refuse_failures(response).await?;
    let media_type = read_header(&response, CONTENT_TYPE.as_str())
        .unwrap_or_default()
        .to_lowercase();
    if media_type.starts_with("text/html") {
        return Err(not_events(response).await);
    }
    Ok(AnswerReading {
        response,
        body: AnswerBody::new(provider.wire.decoder(request), &media_type, provider.tap.clone()),
        first_byte_until,
        last_frame: Instant::now(),
    })
}

impl AnswerReading<'_> {
    /// Reads more of the body. True if the answer has ended.
    async fn advance(&mut self, events: &mut Vec<ProviderEvent>, idle: Duration) -> Result<bool, ProviderFailure> {
        let closing = self.body.progress() == AnswerProgress::Closing;
        let until = match self.body.bytes() {
            _ if closing => self.last_frame + limits::seconds(PROVIDER_CLOSING_SECONDS_MAX),
            0 => self.first_byte_until,
            _ => Instant::now() + idle,
        };
        match timeout_at(until, self.response.chunk()).await {
            Ok(Ok(Some(chunk))) => {
                let frames = self.body.frames();
                let over = self.body.take(&chunk, events)?;
                if self.body.frames() > frames {
                    self.last_frame = Instant::now();
                }
                Ok(over)
            }
            Ok(Ok(None)) => self.body.finish(events).map(|()| true),
            // After the end mark the way in which the connection closes does not matter.
            _ if closing => self.body.finish(events).map(|()| true),
            Ok(Err(error)) => Err(from_transport(&error)),
            Err(_) => Err(silence_failure("silence within the answer", idle)),
        }
    }
}

async fn not_events(response: Response) -> ProviderFailure {
    let status = response.status().as_u16();
    ProviderFailure::not_a_stream(status, &capped_body(response).await)
}

/// Passes on an answer with success. Everything else is a failure, whose body is read up to a bound.
async fn refuse_failures(response: Response) -> Result<Response, ProviderFailure> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    if status.is_redirection() {
        let to = read_header(&response, LOCATION.as_str()).unwrap_or_default();
        return Err(ProviderFailure {
            status: Some(status.as_u16()),
            ..ProviderFailure::new(
                FailureClass::Redirect,
                format!("to {}", without_credentials(&one_line(&to))),
            )
        });
    }
    let wait = retry_after::retry_after(
        read_header(&response, "retry-after").as_deref(),
        read_header(&response, "retry-after-ms").as_deref(),
        chrono::Utc::now(),
    );
    let body = capped_body(response).await;
    Err(ProviderFailure::from_answer(status.as_u16(), &body, wait))
}

/// Reads as much of a body as an error message needs, for a bounded time.
pub(super) async fn capped_body(mut response: Response) -> String {
    let mut body = Vec::new();
    let until = Instant::now() + limits::seconds(PROVIDER_CONNECT_SECONDS_MAX);
    while let Ok(Ok(Some(chunk))) = timeout_at(until, response.chunk()).await {
        let room = PROVIDER_ERROR_BYTES_MAX - body.len();
        body.extend_from_slice(&chunk[..room.min(chunk.len())]);
        if body.len() == PROVIDER_ERROR_BYTES_MAX {
            break;
        }
    }
    String::from_utf8_lossy(&body).into_owned()
}

fn read_header(response: &Response, name: &str) -> Option<String> {
    let value = response.headers().get(name)?;
    Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
}

fn silence_failure(what: &str, bound: Duration) -> ProviderFailure {
    ProviderFailure::new(FailureClass::Timeout, format!("{what} for {}", format_seconds(bound)))
}

fn format_seconds(wait: Duration) -> String {
    match wait.as_millis() {
        milliseconds if milliseconds % 1000 == 0 => format!("{} s", milliseconds / 1000),
        _ => format!("{:.1} s", wait.as_secs_f64()),
    }
}

/// Converts a failure below HTTP. The URL is removed from the text, because it may hold a password.
pub(super) fn from_transport(error: &reqwest::Error) -> ProviderFailure {
    let mut causes = Vec::new();
    let mut refused = false;
    let mut next = error.source();
    while let Some(cause) = next {
        if let Some(other) = cause.downcast_ref::<OtherUser>() {
            return ProviderFailure::new(FailureClass::OtherUser, other.to_string());
        }
        if cause.is::<BrokenConnection>() {
            return ProviderFailure::new(FailureClass::Broken, BrokenConnection.to_string());
        }
        if is_unknown_issuer(cause) {
            return ProviderFailure::new(FailureClass::UnknownIssuer, "unknown issuer");
        }
        refused |= cause
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
        causes.push(cause.to_string());
        next = cause.source();
    }
    let said = one_line(causes.last().map_or("no reason given", String::as_str));
    let class = if refused {
        FailureClass::Refused
    } else if error.is_connect() {
        FailureClass::Unreachable
    } else if causes.iter().any(|cause| cause.contains("invalid HTTP")) {
        return ProviderFailure::new(FailureClass::NotAServer, "something that is not HTTP");
    } else {
        // The text describes a library's internals: it goes to the log, not to the user.
        tracing::debug!(said, "the connection to the provider broke off");
        return ProviderFailure::new(FailureClass::Broken, "the connection broke off");
    };
    ProviderFailure::new(class, said)
}

/// True for a certificate of an unknown authority. `io::Error::source` skips the error that it wraps, so the wrapped
/// error is compared too.
fn is_unknown_issuer(error: &(dyn std::error::Error + 'static)) -> bool {
    let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    let unknown = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
    error.downcast_ref::<rustls::Error>() == Some(&unknown) || wrapped.is_some_and(|wrapped| is_unknown_issuer(wrapped))
}

fn header_name(name: &str, settings: &ProviderSettings) -> Result<HeaderName, Problem> {
    HeaderName::from_bytes(name.as_bytes()).map_err(|_| {
        Problem::new(
            ErrorKind::InvalidProvider,
            format!(
                "`{name}` of the provider {} is no name of a header",
                settings.display_name()
            ),
        )
        .with_hint("mend `headers` or `key_header` in config.toml")
    })
}

fn unusable_key(settings: &ProviderSettings) -> Problem {
    Problem::new(
        ErrorKind::InvalidProvider,
        format!(
            "The API key of the provider {} holds characters that no key has",
            settings.display_name()
        ),
    )
    .with_hint("run `tool init` again, and paste the key without line breaks")
}

/// True for a size of the context that an error may name about a request of this many tokens. A number in the text may mean
/// something else, and our estimate of code is up to 40 % low.
fn is_plausible_context(tokens: u64, estimate: u64) -> bool {
    tokens >= LEARNED_CONTEXT_TOKENS_MIN && tokens <= estimate + estimate / 2
}

/// Seconds since 1970.
fn unix_seconds() -> i64 {
    chrono::Utc::now().timestamp()
}

/// A number from 0 to 1 for jitter; it does not have to be secret.
fn random_jitter() -> f64 {
    use std::hash::{BuildHasher, Hasher};
    let random = std::hash::RandomState::new().build_hasher().finish();
    f64::from(u32::try_from(random >> 32).unwrap_or(0)) / f64::from(u32::MAX)
}

/// Sends a request whose answer comes whole, within `bound`.
pub(super) async fn fetch_text(builder: RequestBuilder, bound: Duration) -> Result<String, ProviderFailure> {
    let exchange = async {
        let response = builder.send().await.map_err(|error| from_transport(&error))?;
        let mut response = refuse_failures(response).await?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| from_transport(&error))? {
            body.extend_from_slice(&chunk);
            if body.len() > limits::SSE_FRAME_BYTES_MAX {
                return Err(ProviderFailure::new(FailureClass::Protocol, "the list is too long"));
            }
        }
        Ok(String::from_utf8_lossy(&body).into_owned())
    };
    match timeout(bound, exchange).await {
        Ok(result) => result,
        Err(_) => Err(silence_failure("no answer", bound)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_learned_only_where_the_request_could_have_exceeded_it() {
        for (tokens, estimate, expected) in [
            (32_768, 30_000, true),
            (32_768, 5_000, false),
            (7, 30_000, false),
            (0, 30_000, false),
        ] {
            assert_eq!(
                is_plausible_context(tokens, estimate),
                expected,
                "{tokens} of {estimate}"
            );
        }
    }
}

//! The OpenAPI description, generated from the routes: a [`RouteTable`] takes each route with its description, so
//! that neither exists without the other.
//!
//! Each handler describes its parameters and answers; this module has the parts that all share. The file
//! `openapi.json` in the repository is a copy, and a test keeps it equal to the served description.

use std::collections::BTreeMap;

use axum::Router;
use axum::handler::Handler;
use axum::middleware::from_fn;
use axum::routing::{MethodFilter, on};
use utoipa::openapi::link::Link;
use utoipa::openapi::path::{HttpMethod, Parameter, ParameterIn, Paths};
use utoipa::openapi::schema::{AnyOfBuilder, ObjectBuilder, Schema, Type};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    ComponentsBuilder, Content, Header, InfoBuilder, License, OpenApi, OpenApiBuilder, Ref, RefOr, Response, Server,
};
use utoipa::{IntoResponses, PartialSchema, ToSchema};

use super::AppState;
use super::body::no_query;
use tool_core::api::{ArchitectureEvent, ErrorBody, Event};

/// Text about the interface as a whole.
const DESCRIPTION: &str = include_str!("openapi.md");

/// Name of the security scheme.
const TOKEN: &str = "token";

/// Name of the schema of an event with its framing.
const MESSAGE: &str = "Message";

/// Routes with their descriptions.
pub(super) struct RouteTable {
    router: Router<AppState>,
    paths: Paths,
    schemas: BTreeMap<String, RefOr<Schema>>,
}

impl RouteTable {
    pub(super) fn new() -> Self {
        let mut schemas = Vec::new();
        for (name, schema, used) in [
            schemas_of::<ErrorBody>(),
            schemas_of::<Event>(),
            schemas_of::<ArchitectureEvent>(),
        ] {
            schemas.push((name, schema));
            schemas.extend(used);
        }
        schemas.push((MESSAGE.to_owned(), sse_message_schema()));
        Self {
            router: Router::new(),
            paths: Paths::new(),
            schemas: schemas.into_iter().collect(),
        }
    }

    /// Adds a route at the path and for the method of its description. If that has no query parameters, the route
    /// refuses any.
    pub(super) fn with<P, H, T>(mut self, _description: P, handler: H) -> Self
    where
        // `SchemaReferences` collects the schemas of a description, and the third trait its tag. utoipa has no public
        // way to get them.
        P: utoipa::Path + utoipa::__dev::SchemaReferences + for<'a> utoipa::__dev::Tags<'a>,
        H: Handler<T, AppState>,
        T: 'static,
    {
        let (path, methods, mut operation) = (P::path(), P::methods(), P::operation());
        operation.tags = Some(P::tags().into_iter().map(str::to_owned).collect());
        let takes_query = operation.parameters.iter().flatten().any(is_query);
        let mut route = on(method_filter(&methods), handler);
        if !takes_query {
            route = route.route_layer(from_fn(no_query));
        }
        let mut schemas = Vec::new();
        P::schemas(&mut schemas);
        self.schemas.extend(schemas);
        self.router = self.router.route(&path, route);
        self.paths.add_path_operation(path, methods, operation);
        self
    }

    /// Returns the routes, and the description of all of them.
    pub(super) fn finish(self) -> (Router<AppState>, OpenApi) {
        let scheme = Http::builder().scheme(HttpAuthScheme::Bearer).description(Some(
            "The content of `~/.tool/token`. On Linux and loopback a process of the same user that is not confined needs \
             none, unless `[server] auth = \"token\"` says so.",
        ));
        let components = ComponentsBuilder::new()
            .schemas_from_iter(self.schemas)
            .security_scheme(TOKEN, SecurityScheme::Http(scheme.build()));
        let info = InfoBuilder::new()
            .title("tool")
            .version(env!("CARGO_PKG_VERSION"))
            .license(Some(License::new(env!("CARGO_PKG_LICENSE"))))
            .description(Some(DESCRIPTION));
        let servers = ["/", "/api"].map(Server::new);
        let document = OpenApiBuilder::new()
            .info(info.build())
            .servers(Some(servers))
            .paths(self.paths)
            .components(Some(components.build()))
            .security(Some([
                SecurityRequirement::default(),
                SecurityRequirement::new(TOKEN, Vec::<String>::new()),
            ]));
        (self.router, document.build())
    }
}

/// The schema of an event with its framing; the field `data` holds the event itself.
fn sse_message_schema() -> RefOr<Schema> {
    let text = || ObjectBuilder::new().schema_type(Type::String);
    let id = text().pattern(Some("^[0-9]+$")).description(Some(
        "Its number in the session, for `Last-Event-ID`; absent with `strict`.",
    ));
    let forms = AnyOfBuilder::new()
        .item(Ref::from_schema_name(Event::name()))
        .item(Ref::from_schema_name(ArchitectureEvent::name()));
    let data = text()
        .content_media_type("application/json")
        .content_schema(Some(Schema::AnyOf(forms.build())));
    ObjectBuilder::new()
        .description(Some("One event of a stream."))
        .property("id", id)
        .property("data", data)
        .required("data")
        .into()
}

type NamedSchema = (String, RefOr<Schema>);

fn schemas_of<T: ToSchema + PartialSchema>() -> (String, RefOr<Schema>, Vec<NamedSchema>) {
    let mut used = Vec::new();
    T::schemas(&mut used);
    (T::name().into_owned(), T::schema(), used)
}

fn is_query(parameter: &RefOr<Parameter>) -> bool {
    matches!(parameter, RefOr::T(parameter) if parameter.parameter_in == ParameterIn::Query)
}

fn method_filter(methods: &[HttpMethod]) -> MethodFilter {
    let filters = methods.iter().map(|method| match method {
        HttpMethod::Get => MethodFilter::GET,
        HttpMethod::Post => MethodFilter::POST,
        HttpMethod::Delete => MethodFilter::DELETE,
        HttpMethod::Put => MethodFilter::PUT,
        HttpMethod::Patch => MethodFilter::PATCH,
        HttpMethod::Options => MethodFilter::OPTIONS,
        HttpMethod::Head => MethodFilter::HEAD,
        HttpMethod::Trace => MethodFilter::TRACE,
    });
    filters.reduce(MethodFilter::or).expect("a description names a method")
}

fn refusal_response(description: &str) -> RefOr<Response> {
    let content = Content::new(Some(Ref::from_schema_name(ErrorBody::name())));
    Response::builder()
        .description(description)
        .content("application/json", content)
        .build()
        .into()
}

fn refusal_responses(statuses: &[(&str, &str)]) -> BTreeMap<String, RefOr<Response>> {
    let each = |&(status, description): &(&str, &str)| (status.to_owned(), refusal_response(description));
    statuses.iter().map(each).collect()
}

/// Refusals that every route may answer.
pub(super) struct RefusalResponses;

impl IntoResponses for RefusalResponses {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        refusal_responses(&[
            (
                "400",
                "`invalid-request` and the like: the request makes no sense; the message names what is wrong with it.",
            ),
            (
                "401",
                "`unauthorized`: neither the token nor a process of the same user; or more than reading, of a process that \
                 may be confined.",
            ),
            (
                "403",
                "`host-not-allowed`, `origin-not-allowed`: a page of another site. `forbidden`: what only the holder of \
                 the token may ask for. `refused-repository`: a directory that is never worked on.",
            ),
            ("500", "`internal`: a bug of this service."),
        ])
    }
}

/// Further refusals of every route with a body.
pub(super) struct RefusedBody;

impl IntoResponses for RefusedBody {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        refusal_responses(&[
            ("413", "`body-too-large`: more than 1 MiB."),
            ("415", "`unsupported-media-type`: the body is not said to be JSON."),
        ])
    }
}

/// Further refusals of every route about a repository.
pub(super) struct RefusedRepository;

impl IntoResponses for RefusedRepository {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        refusal_responses(&[
            (
                "404",
                "`invalid-repository`: there is no directory at `repo_path` that can be read. `not-found`: there is no \
                 such skill.",
            ),
            (
                "503",
                "The request is right and would work, were the backend configured (`config-missing`, `config-invalid`, \
                 `config-needs-model` and the like), idle (`busy`), able to write (`journal-failed`), or not stopping \
                 (`stopping`).",
            ),
        ])
    }
}

/// A stream of an existing session.
pub(super) struct FollowedStream;

impl IntoResponses for FollowedStream {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        [("200".to_owned(), describe_events(Response::builder()).build().into())].into()
    }
}

/// A stream of a session that the request has started.
pub(super) struct StartedStream;

impl IntoResponses for StartedStream {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let header = |description: &str| {
            let mut header = Header::new(ObjectBuilder::new().schema_type(Type::String));
            header.description = Some(description.to_owned());
            header
        };
        let response = describe_events(Response::builder())
            .header("x-session-id", header("Identifier of the session."))
            .header(
                "x-approval-secret",
                header("One-time secret that answers this session's approvals; only its starter ever gets it."),
            )
            .link("follow", operation_link("stream"))
            .link("cancel", operation_link("cancel"));
        [("200".to_owned(), response.build().into())].into()
    }
}

/// Link from the header of a new stream to an operation.
fn operation_link(operation: &str) -> Link {
    Link::builder()
        .operation_id(operation)
        .parameter("session_id", "$response.header.x-session-id")
        .build()
}

fn describe_events(response: utoipa::openapi::ResponseBuilder) -> utoipa::openapi::ResponseBuilder {
    response
        .description(
            "Server-Sent Events until the session has ended; the schema is that of one event. Of each there is one \
             `data:` line, whose content is JSON of the schema `Event` in the reference form (`token`, `skill`, \
             `complete`, `error`), and in the architecture form (`output`, `skill`, `done`, `error`) of the schema \
             `ArchitectureEvent` where that knows the event. A line that begins with `:` keeps the connection alive. \
             Exactly one terminal event comes, and last: `complete` or `done`, or else `error` with `code`, `message` \
             and `hint`. Further event types may appear; what is not known is to be passed over.",
        )
        .content("text/event-stream", Content::new(Some(Ref::from_schema_name(MESSAGE))))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    /// The description is documentation too: a change of the interface is a change of this file, seen in its review.
    #[test]
    fn the_description_in_the_tree_is_the_one_that_is_served() {
        let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/http/openapi.json");
        let (served, kept) = (
            super::super::openapi_description(),
            fs::read(&place).unwrap_or_default(),
        );
        if kept != served {
            fs::write(&place, &served).expect("the source is writable");
            panic!(
                "{} was out of date and is written anew: read what has changed",
                place.display()
            );
        }
    }
}

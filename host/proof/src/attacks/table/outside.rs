//! Reaching servers, settings, secrets and values that were not granted. The arena's server echoes each request, so that
//! what reaches it comes back.

use super::{KIB, MIB, flood, propose};
use crate::attacks::ExpectedRefusal::{Nothing, Refused};
use crate::attacks::{Attack, AttackGoal, GuestRequest};

/// A host that the hostile skill was granted, and one that it was not.
const GRANTED: &str = "https://granted.example.org/";
const OTHER: &str = "https://other.example.org/";

const fn refuse(name: &'static str, tries: &'static str, asks: &'static [GuestRequest], code: &'static str) -> Attack {
    Attack::calls(name, tries, asks).comes_to(Refused(code))
}

/// An answer of the arena's server alone does not count as a success: only a secret in it does.
const fn echo(name: &'static str, tries: &'static str, asks: &'static [GuestRequest]) -> Attack {
    Attack::calls(name, tries, asks)
        .wants(AttackGoal::Text("SECRET"))
        .comes_to(Nothing)
}

pub(super) const ATTACKS: &[Attack] = &[
    // ---- requests ----
    propose(
        "request_other_host",
        "reach a host that was not granted",
        &[GuestRequest::at("request", OTHER)],
    ),
    propose(
        "request_other_port",
        "reach another port of a host that was granted",
        &[GuestRequest::at("request", "https://granted.example.org:8443/")],
    ),
    propose(
        "post_to_reader",
        "write to a host that was granted for reading",
        &[GuestRequest::at("post", GRANTED).to("POST")],
    ),
    propose(
        "request_denied",
        "reach a host that the user denies",
        &[GuestRequest::at("request", GRANTED)],
    )
    .without(&["http:*"]),
    refuse(
        "hide_host_in_login",
        "hide another host behind a name that was granted",
        &[GuestRequest::at(
            "request",
            "https://granted.example.org@other.example.org/",
        )],
        "HttpRequestUriInvalid",
    ),
    refuse(
        "open_tunnel",
        "open a tunnel",
        &[GuestRequest::at("post", GRANTED).to("CONNECT")],
        "method",
    ),
    refuse(
        "smuggle_request",
        "hide a request in a header",
        &[GuestRequest::at("request-with", GRANTED).to("x-a: 1\r\nGET /admin HTTP/1.1\r\n")],
        "InvalidSyntax",
    ),
    refuse(
        "set_host_header",
        "ask another host of the same address",
        &[GuestRequest::at("request-with", GRANTED).to("Host: other.example.org")],
        "Forbidden",
    ),
    refuse(
        "break_path",
        "hide a request in a path",
        &[GuestRequest::at(
            "request",
            "https://granted.example.org/a HTTP/1.1\r\nx: ",
        )],
        "path",
    ),
    flood(
        "flood_requests",
        "send requests without end",
        &[GuestRequest::at("requests", GRANTED).times(300)],
        "output",
    ),
    propose(
        "post_much_to_reader",
        "write much to a host that was granted for reading",
        &[GuestRequest::at("post-much", GRANTED).times(8 * MIB)],
    ),
    // ---- secrets ----
    echo(
        "echo_secret",
        "have a server repeat a secret",
        &[GuestRequest::at("request-with", GRANTED).to("authorization: Bearer {{secret:token}}")],
    ),
    refuse(
        "encode_secret",
        "have a server repeat a secret compressed",
        &[
            GuestRequest::at("request-with", "https://granted.example.org/compressed")
                .to("authorization: {{secret:token}}"),
        ],
        "HttpResponseContentCoding(None)",
    ),
    refuse(
        "secret_in_other_header",
        "send a secret in another header",
        &[GuestRequest::at("request-with", GRANTED).to("user-agent: {{secret:token}}")],
        "InternalError(Some(\"the secret `token` goes to granted.example.org in the header `authorization` alone\"))",
    ),
    refuse(
        "secret_to_other_host",
        "send a secret to another host",
        &[GuestRequest::at("request-with", "https://second.example.org/").to("authorization: {{secret:token}}")],
        "InternalError(Some(\"the secret `token` goes to granted.example.org in the header `authorization` alone\"))",
    ),
    propose(
        "other_secret",
        "use a secret that was not granted",
        &[GuestRequest::at("request-with", GRANTED).to("authorization: {{secret:other}}")],
    ),
    echo(
        "secret_in_path",
        "have a secret put into a path",
        &[GuestRequest::at(
            "request",
            "https://granted.example.org/{{secret:token}}",
        )],
    ),
    // ---- settings ----
    Attack::calls(
        "settings_of_other_skill",
        "read the settings of another skill",
        &[
            GuestRequest::at("setting", "other.token"),
            GuestRequest::at("setting", "../other/token"),
        ],
    )
    .comes_to(Refused("none")),
    Attack::calls(
        "settings_of_provider",
        "read the key of a provider",
        &[GuestRequest::at("setting", "providers.hosted.api_key")],
    )
    .comes_to(Refused("none")),
    Attack::calls("all_settings", "read all settings", &[GuestRequest::new("settings")]).comes_to(Refused("none")),
    propose(
        "settings_denied",
        "read settings that the user denies",
        &[GuestRequest::new("settings")],
    )
    .without(&["config"]),
    // ---- kept values ----
    refuse(
        "store_of_other_skill",
        "open the store of another skill",
        &[GuestRequest::at("kept", "token").to("other")],
        "Error::NoSuchStore",
    ),
    Attack::calls(
        "key_as_path",
        "read a file by a key",
        &[
            GuestRequest::at("kept", "../../../other/key").to(""),
            GuestRequest::at("kept", "../../../../repo/.env").to(""),
        ],
    )
    .comes_to(Refused("none")),
    Attack::calls(
        "list_other_store",
        "list what another skill keeps",
        &[GuestRequest::at("kept-keys", "")],
    )
    .comes_to(Refused("none")),
    refuse(
        "keep_long_key",
        "keep a value under an endless key",
        &[GuestRequest::at("keep", LONG_KEY).times(KIB)],
        "a key has from 1 to 100 bytes",
    ),
    refuse(
        "keep_large_value",
        "keep a value without end",
        &[GuestRequest::at("keep", "a").times(2 * MIB)],
        "a value has at most 1048576 bytes",
    ),
    refuse(
        "fill_store",
        "fill the disk with values",
        &[GuestRequest::new("keep-many").times(20)],
        "the store is full: its values have at most 16777216 bytes",
    ),
    propose(
        "store_denied",
        "keep a value that the user denies",
        &[GuestRequest::at("keep", "a")],
    )
    .without(&["store"]),
];

/// One byte more than a key may have.
const LONG_KEY: &str =
    "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk";

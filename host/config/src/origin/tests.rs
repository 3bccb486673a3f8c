use std::collections::BTreeMap;

use super::*;

fn environment(variables: &[(&str, &str)]) -> Environment {
    let owned = variables
        .iter()
        .map(|&(name, value)| (name.to_owned(), value.to_owned()));
    Environment::new(owned.collect::<BTreeMap<_, _>>())
}

/// Every setting as a line, for a file with this text.
fn listed(text: &str, variables: &[(&str, &str)]) -> String {
    let file = parse(text).expect("the file is right");
    let settings = list_settings(
        &file,
        Path::new("/h/config.toml"),
        Path::new("/h"),
        &environment(variables),
    );
    let lines = settings
        .iter()
        .map(|setting| format!("{} = {} ({})", setting.key, setting.value, setting.origin));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn every_setting_has_its_origin() {
    let text = r#"
[providers.hosted]
enabled = true
model = "of-file"
api_key = "0123456789"
[providers.local]
url = "builtin:analyst"
[providers.router]
url = "https://me:pass@example.org/v1?key=abc"
api_key = "abc"
[context]
vault = "~/notes"
[server]
auth = "token"
[policy]
deny = ["install"]
"#;
    let variables = [
        ("HOSTED_API_KEY", "grüße-éà"),
        ("HOSTED_MODEL", "of-environment"),
        ("TOOL_LOG_LEVEL", "DEBUG"),
        ("TOOL_BACKEND_PORT", "9000"),
        ("TOOL_HOME", "/h"),
    ];
    insta::assert_snapshot!(listed(text, &variables), @r#"
    home = "/h" (from TOOL_HOME)
    server.port = 9000 (from TOOL_BACKEND_PORT)
    providers.hosted.enabled = true (from /h/config.toml)
    providers.hosted.api = "messages" (default)
    providers.hosted.url = "https://api.anthropic.com" (default)
    providers.hosted.model = "of-environment" (from HOSTED_MODEL)
    providers.hosted.api_key = "set, 8 characters" (from HOSTED_API_KEY)
    providers.hosted.text_calls = false (default)
    providers.hosted.first_byte_seconds = 600 (default)
    providers.hosted.idle_seconds = 300 (default)
    providers.hosted.trust_loopback_user = null (default)
    providers.local.enabled = false (default)
    providers.local.api = "builtin:analyst" (default)
    providers.local.url = "builtin:analyst" (from /h/config.toml)
    providers.local.model = "builtin:analyst" (from /h/config.toml)
    providers.local.api_key = null (default)
    providers.local.text_calls = false (default)
    providers.local.first_byte_seconds = 600 (default)
    providers.local.idle_seconds = 300 (default)
    providers.local.trust_loopback_user = null (default)
    providers.router.enabled = false (default)
    providers.router.api = "chat" (default)
    providers.router.url = "https://***@example.org/v1?***" (from /h/config.toml)
    providers.router.model = null (default)
    providers.router.api_key = "set, 3 characters" (from /h/config.toml)
    providers.router.text_calls = false (default)
    providers.router.first_byte_seconds = 600 (default)
    providers.router.idle_seconds = 300 (default)
    providers.router.trust_loopback_user = null (default)
    logging.level = "DEBUG" (from TOOL_LOG_LEVEL)
    context.vault = "~/notes" (from /h/config.toml)
    reports.directory = null (default)
    server.address = "127.0.0.1" (default)
    server.hosts = [] (default)
    server.cors_origins = [] (default)
    server.auth = "token" (from /h/config.toml)
    server.idle_minutes = null (default)
    policy.hide = [] (default)
    policy.reveal = [] (default)
    policy.protect = [] (default)
    policy.unredacted = [] (default)
    policy.team = [] (default)
    policy.allow = [] (default)
    policy.deny = ["install"] (from /h/config.toml)
    policy.require_sandbox = false (default)
    policy.untrusted = false (default)
    policy.home = false (default)
    policy.mcp = [] (default)
    policy.hooks = "none" (default)
    skills.require_signature = false (default)
    skills.identities = [] (default)
    skills.config = [] (default)
    skills.secrets = [] (default)
    skills.hosts = [] (default)
    tests.command = [] (default)
    tests.results = "exit" (default)
    tests.format = [] (default)
    tests.lint = [] (default)
    tests.types = [] (default)
    tests.build = [] (default)
    "#);
}

#[test]
fn defaults_are_shown_as_such() {
    insta::assert_snapshot!(listed("", &[]), @r#"
    home = "/h" (default)
    server.port = 8000 (default)
    providers.hosted.enabled = false (default)
    providers.hosted.api = "messages" (default)
    providers.hosted.url = "https://api.anthropic.com" (default)
    providers.hosted.model = null (default)
    providers.hosted.api_key = null (default)
    providers.hosted.text_calls = false (default)
    providers.hosted.first_byte_seconds = 600 (default)
    providers.hosted.idle_seconds = 300 (default)
    providers.hosted.trust_loopback_user = null (default)
    providers.local.enabled = false (default)
    providers.local.api = "chat" (default)
    providers.local.url = "http://127.0.0.1:1234/v1" (default)
    providers.local.model = null (default)
    providers.local.api_key = null (default)
    providers.local.text_calls = false (default)
    providers.local.first_byte_seconds = 600 (default)
    providers.local.idle_seconds = 300 (default)
    providers.local.trust_loopback_user = null (default)
    providers.router.enabled = false (default)
    providers.router.api = "chat" (default)
    providers.router.url = "https://openrouter.ai/api/v1" (default)
    providers.router.model = null (default)
    providers.router.api_key = null (default)
    providers.router.text_calls = false (default)
    providers.router.first_byte_seconds = 600 (default)
    providers.router.idle_seconds = 300 (default)
    providers.router.trust_loopback_user = null (default)
    logging.level = "INFO" (default)
    context.vault = null (default)
    reports.directory = null (default)
    server.address = "127.0.0.1" (default)
    server.hosts = [] (default)
    server.cors_origins = [] (default)
    server.auth = "same-user" (default)
    server.idle_minutes = null (default)
    policy.hide = [] (default)
    policy.reveal = [] (default)
    policy.protect = [] (default)
    policy.unredacted = [] (default)
    policy.team = [] (default)
    policy.allow = [] (default)
    policy.deny = [] (default)
    policy.require_sandbox = false (default)
    policy.untrusted = false (default)
    policy.home = false (default)
    policy.mcp = [] (default)
    policy.hooks = "none" (default)
    skills.require_signature = false (default)
    skills.identities = [] (default)
    skills.config = [] (default)
    skills.secrets = [] (default)
    skills.hosts = [] (default)
    tests.command = [] (default)
    tests.results = "exit" (default)
    tests.format = [] (default)
    tests.lint = [] (default)
    tests.types = [] (default)
    tests.build = [] (default)
    "#);
}

#[test]
fn the_key_is_that_of_the_wire() {
    let text = "[providers.hosted]\napi = \"chat\"\n";
    let variables = [("HOSTED_API_KEY", "a"), ("VENDOR_B_API_KEY", "abc")];
    let listed = listed(text, &variables);
    assert!(
        listed.contains("providers.hosted.api_key = \"set, 3 characters\" (from VENDOR_B_API_KEY)"),
        "{listed}"
    );
}

#[test]
fn what_is_listed_and_what_is_resolved_are_the_same() {
    let text = "[providers.hosted]\nenabled = true\nmodel = \"m\"\nurl = \"https://example.org/\"\n";
    let variables = [("HOSTED_API_KEY", "k"), ("TOOL_LOG_LEVEL", "WARN")];
    let resolved = resolve_settings(parse(text).expect("right"), &environment(&variables)).expect("right");
    let listed = listed(text, &variables);
    for line in [
        format!("providers.hosted.url = \"{}\"", resolved.provider.url),
        format!("providers.hosted.model = \"{}\"", resolved.provider.model),
        format!("logging.level = \"{}\"", resolved.log_level),
    ] {
        assert!(listed.contains(&line), "{line} is missing in\n{listed}");
    }
}

/// A home with this file, of this mode.
fn home(text: &str, mode: u32) -> tempfile::TempDir {
    let home = tempfile::tempdir().expect("a temporary folder");
    let place = super::super::config_path(home.path());
    fs::write(&place, text).expect("the folder is writable");
    fs::set_permissions(&place, fs::Permissions::from_mode(mode)).expect("it is ours");
    home
}

#[test]
fn a_missing_and_a_broken_file_are_told_apart() {
    let empty = tempfile::tempdir().expect("a temporary folder");
    let missing = inspect_config(empty.path(), &environment(&[("TOOL_LOG_LEVEL", "DEBUG")]));
    assert_eq!(missing.state, FileState::Missing);
    assert_eq!(
        missing.problem.map(|problem| problem.kind),
        Some(ErrorKind::ConfigMissing)
    );
    assert!(missing.settings.len() > 20, "defaults are worth showing");

    let broken = home("[providers", 0o600);
    let broken = inspect_config(broken.path(), &environment(&[("TOOL_LOG_LEVEL", "DEBUG")]));
    assert_eq!(broken.state, FileState::Broken);
    assert_eq!(
        broken.problem.map(|problem| problem.kind),
        Some(ErrorKind::ConfigInvalid)
    );
    let keys: Vec<&str> = broken.settings.iter().map(|setting| setting.key.as_str()).collect();
    assert_eq!(keys, ["logging.level"], "nothing is said about what could not be read");
}

#[test]
fn a_wrong_configuration_is_listed_with_what_is_wrong() {
    let home = home(
        "[providers.local]\nenabled = true\n[providers.router]\nenabled = true\n",
        0o600,
    );
    let inspection = inspect_config(home.path(), &environment(&[]));
    assert_eq!(inspection.state, FileState::Read);
    assert_eq!(
        inspection.problem.map(|problem| problem.message).as_deref(),
        Some("More than one provider is enabled: local and router")
    );
    assert!(inspection.warnings.is_empty());
    let port = inspect_config(home.path(), &environment(&[("TOOL_BACKEND_PORT", "http")]));
    assert!(
        port.problem
            .is_some_and(|problem| problem.message.contains("TOOL_BACKEND_PORT"))
    );
}

#[test]
fn a_file_that_others_may_read_is_a_warning() {
    let with_key = home(
        "[providers.router]\napi_key = \"k\"\nmodel = \"m\"\nenabled = true\n",
        0o644,
    );
    let warning = exposed_key(with_key.path()).expect("a key lies open");
    assert!(
        warning.message.ends_with("may be read by others (mode 644)"),
        "{warning}"
    );
    assert!(warning.hint.is_some_and(|hint| hint.starts_with("chmod 600 ")));
    assert_eq!(inspect_config(with_key.path(), &environment(&[])).warnings.len(), 1);
    let without = home("[providers.local]\nurl = \"builtin:analyst\"\nenabled = true\n", 0o644);
    assert!(check_exposure(without.path()).is_some() && exposed_key(without.path()).is_none());
    assert!(check_exposure(home("", 0o600).path()).is_none());
}

#[test]
fn no_part_of_a_secret_is_in_an_inspection() {
    let text = "[providers.router]\napi_key = \"s3cret-of-file\"\nurl = \"https://u:s3cret-of-url@e.org/?k=s3cret-q\"\n\
                model = \"m\"\nenabled = true\n";
    let home = home(text, 0o600);
    let variables = [
        ("HOSTED_API_KEY", "s3cret-e"),
        ("HTTPS_PROXY", "http://u:s3cret-p@e.org"),
    ];
    let inspection = inspect_config(home.path(), &environment(&variables));
    let shown = serde_json::to_string(&inspection).expect("it is JSON");
    assert!(!shown.contains("s3cret"), "{shown}");
    assert!(shown.contains("set, 14 characters"), "{shown}");
    assert_eq!(inspection.forwarded, ["HTTPS_PROXY"]);
}

#[test]
fn a_url_is_shown_without_what_may_be_a_secret() {
    for (url, shown) in [
        ("https://example.org/v1", "https://example.org/v1"),
        ("http://user:pass@127.0.0.1:1234/v1", "http://***@127.0.0.1:1234/v1"),
        ("https://e.org/v1?key=1&b=2", "https://e.org/v1?***"),
        ("https://u:p@w@e.org", "https://***@e.org"),
        ("builtin:analyst", "builtin:analyst"),
        ("https://e.org/a@b", "https://e.org/a@b"),
    ] {
        assert_eq!(mask_url(url), shown);
    }
}

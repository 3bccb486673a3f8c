//! Settings from the file and the environment, and the problems where they are wrong.

use super::*;

fn environment(variables: &[(&str, &str)]) -> Environment {
    Environment::new(
        variables
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
    )
}

fn settings(text: &str, variables: &[(&str, &str)]) -> Result<Settings, Problem> {
    resolve(parse(text)?, &environment(variables))
}

fn problem(text: &str, variables: &[(&str, &str)]) -> (String, String) {
    let problem = settings(text, variables).expect_err("the configuration is wrong");
    (problem.message, problem.hint.unwrap_or_default())
}

#[test]
fn the_environment_wins_over_the_file() {
    let text = "[providers.hosted]\napi_key = \"of-file\"\nmodel = \"a\"\nenabled = true\n[logging]\nlevel = \"WARN\"";
    let variables = [
        ("HOSTED_API_KEY", "of-environment"),
        ("HOSTED_MODEL", "b"),
        ("TOOL_LOG_LEVEL", "DEBUG"),
    ];
    let resolved = settings(text, &variables).expect("the configuration is right");
    assert_eq!(resolved.provider.api_key, Some(Secret::new("of-environment")));
    assert_eq!(
        (resolved.provider.model.as_str(), resolved.log_level.as_str()),
        ("b", "DEBUG")
    );
    let from_file = settings(text, &[]).expect("the configuration is right");
    assert_eq!(from_file.provider.api_key, Some(Secret::new("of-file")));
    assert_eq!(
        (from_file.provider.model.as_str(), from_file.log_level.as_str()),
        ("a", "WARN")
    );
}

#[test]
fn each_wire_of_hosted_has_its_own_key_and_address() {
    for (api, variable, url) in [
        ("messages", "HOSTED_API_KEY", "https://api.anthropic.com"),
        ("chat", "VENDOR_B_API_KEY", "https://api.openai.com/v1"),
        (
            "generate-content",
            "VENDOR_C_API_KEY",
            "https://generativelanguage.googleapis.com",
        ),
    ] {
        let text = format!("[providers.hosted]\napi = \"{api}\"\nmodel = \"m\"\nenabled = true");
        let resolved = settings(&text, &[(variable, "k")]).expect("the configuration is right");
        assert_eq!(resolved.provider.url, url);
        assert!(problem(&text, &[]).1.contains(variable));
    }
}

#[test]
fn calls_as_text_are_allowed_by_name_and_only_where_they_are_read() {
    let text = "[providers.local]\nmodel = \"m\"\nenabled = true\n";
    let read = |text: &str| settings(text, &[]).map(|settings| settings.provider.text_calls);
    assert_eq!(read(text), Ok(false));
    assert_eq!(read(&format!("{text}text_calls = true")), Ok(true));
    let hosted = "[providers.hosted]\nmodel = \"m\"\napi_key = \"k\"\nenabled = true\ntext_calls = true";
    assert!(problem(hosted, &[]).0.contains("`text_calls` of the provider `hosted`"));
}

#[test]
fn the_port_is_of_the_environment_the_file_or_the_specification() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let of = |variables: &[(&str, &str)]| port(home.path(), &environment(variables));
    assert_eq!(of(&[]), Ok(8000));
    std::fs::write(path(home.path()), "[server]\nport = 8123").expect("the folder is writable");
    assert_eq!(of(&[]), Ok(8123));
    assert_eq!(of(&[("TOOL_BACKEND_PORT", "9000")]), Ok(9000));
    assert!(of(&[("TOOL_BACKEND_PORT", "many")]).is_err());
}

#[test]
fn two_enabled_providers_are_named() {
    let text = "[providers.local]\nenabled = true\n[providers.router]\nenabled = true";
    assert_eq!(
        problem(text, &[]).0,
        "More than one provider is enabled: local and router"
    );
    assert_eq!(
        problem("[providers.local]\nmodel = \"m\"", &[]).0,
        "No provider is enabled"
    );
}

#[test]
fn broken_toml_says_where() {
    let (message, hint) = problem("[providers.local]\nenabled = yes", &[]);
    assert_eq!(message, "Failed to parse config: Invalid TOML syntax");
    assert!(hint.starts_with("line 2, column 11 of config.toml"), "{hint}");
}

#[test]
fn an_unknown_key_names_the_nearest_known_one() {
    let (message, hint) = problem("[providers.local]\nenable = true", &[]);
    assert!(
        message.starts_with("Failed to parse config: unknown field `enable`"),
        "{message}"
    );
    assert!(hint.ends_with("did you mean `enabled`?"), "{hint}");
    assert!(
        problem("[providers.lokal]\nenabled = true", &[])
            .1
            .contains("did you mean `local`?")
    );
}

#[test]
fn silence_is_bounded_by_the_user_or_else_by_the_engine() {
    let text = "[providers.local]\nmodel = \"m\"\nenabled = true\nidle_seconds = 20";
    let resolved = settings(text, &[]).expect("the configuration is right");
    let patience = Patience {
        first_byte: None,
        idle: Some(Duration::from_secs(20)),
    };
    assert_eq!(resolved.provider.patience, patience);
    let (message, _) = problem(&text.replace("20", "0"), &[]);
    assert!(message.contains("nonzero"), "{message}");
}

#[test]
fn the_analyst_is_local_and_needs_nothing() {
    let text = "[providers.local]\nurl = \"builtin:analyst\"\nenabled = true";
    let resolved = settings(text, &[]).expect("the configuration is right");
    assert_eq!(
        (resolved.provider.api, resolved.provider.model.as_str()),
        (Api::Analyst, "builtin:analyst")
    );
    assert!(settings(&text.replace("local", "router"), &[("ROUTER_API_KEY", "k")]).is_err());
}

#[test]
fn a_key_is_not_in_any_debug_form() {
    let resolved = settings(
        "[providers.router]\nmodel = \"m\"\nenabled = true",
        &[("ROUTER_API_KEY", "s3cret")],
    );
    assert!(!format!("{resolved:?}").contains("s3cret"));
    assert!(!format!("{:?}", environment(&[("ROUTER_API_KEY", "s3cret")])).contains("s3cret"));
}

#[test]
fn a_missing_file_is_said_in_the_specifications_words() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let problem = load(home.path(), &Environment::default()).expect_err("there is no file");
    assert_eq!(problem.message, "Configuration file not found: ~/.tool/config.toml");
    assert!(problem.hint.is_some_and(|hint| hint.contains("tool init")));
}

#[test]
fn what_needs_no_provider_holds_without_one() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let level = |variables: &[(&str, &str)]| {
        let common = common(home.path(), &environment(variables)).expect("the file is right");
        common.log_level
    };
    assert_eq!(level(&[]), "INFO");
    assert_eq!(level(&[("TOOL_LOG_LEVEL", "WARN")]), "WARN");
    // The key is in another environment, as with a daemon that another shell started.
    let text =
        "[providers.hosted]\nmodel = \"m\"\nenabled = true\n[logging]\nlevel = \"DEBUG\"\n[server]\nauth = \"token\"";
    std::fs::write(path(home.path()), text).expect("the folder is writable");
    assert_eq!(level(&[]), "DEBUG");
    assert_eq!(level(&[("TOOL_LOG_LEVEL", "WARN")]), "WARN");
    let known = common(home.path(), &environment(&[])).expect("the file is right");
    assert_eq!(known.server.auth, Auth::Token);
    std::fs::write(path(home.path()), "[server]\nauth = ").expect("the folder is writable");
    assert!(common(home.path(), &environment(&[])).is_err());
    assert_eq!(Common::strict(&environment(&[])).server.auth, Auth::Token);
}

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
    resolve_settings(parse(text)?, &environment(variables))
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
    let of = |variables: &[(&str, &str)]| backend_port(home.path(), &environment(variables));
    assert_eq!(of(&[]), Ok(8000));
    std::fs::write(config_path(home.path()), "[server]\nport = 8123").expect("the folder is writable");
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
    let patience = ProviderTimeouts {
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
        (ProviderApi::Analyst, "builtin:analyst")
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
    let problem = load_settings(home.path(), &Environment::default()).expect_err("there is no file");
    assert_eq!(problem.message, "Configuration file not found: ~/.tool/config.toml");
    assert!(problem.hint.is_some_and(|hint| hint.contains("tool init")));
}

#[test]
fn what_needs_no_provider_holds_without_one() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let level = |variables: &[(&str, &str)]| {
        let common = load_common(home.path(), &environment(variables)).expect("the file is right");
        common.log_level
    };
    assert_eq!(level(&[]), "INFO");
    assert_eq!(level(&[("TOOL_LOG_LEVEL", "WARN")]), "WARN");
    // The key is in another environment, as with a daemon that another shell started.
    let text =
        "[providers.hosted]\nmodel = \"m\"\nenabled = true\n[logging]\nlevel = \"DEBUG\"\n[server]\nauth = \"token\"";
    std::fs::write(config_path(home.path()), text).expect("the folder is writable");
    assert_eq!(level(&[]), "DEBUG");
    assert_eq!(level(&[("TOOL_LOG_LEVEL", "WARN")]), "WARN");
    let known = load_common(home.path(), &environment(&[])).expect("the file is right");
    assert_eq!(known.server.auth, AuthPolicy::Token);
    std::fs::write(config_path(home.path()), "[server]\nauth = ").expect("the folder is writable");
    assert!(load_common(home.path(), &environment(&[])).is_err());
    assert_eq!(CommonSettings::strict(&environment(&[])).server.auth, AuthPolicy::Token);
}

#[test]
fn a_vendor_brings_its_server_and_its_table_overrides_it() {
    let text = "[providers.hosted]\nmodel = \"of-hosted\"\nvendor = \"mistral\"\nenabled = true\n[vendors.mistral]\nmodel = \"m\"\n";
    let resolved = settings(text, &[("MISTRAL_API_KEY", "k"), ("HOSTED_MODEL", "of-another")]);
    let provider = resolved.expect("the configuration is right").provider;
    assert_eq!(
        (
            provider.vendor.as_deref(),
            provider.url.as_str(),
            provider.model.as_str()
        ),
        (Some("mistral"), "https://api.mistral.ai/v1", "m")
    );
    assert!(!provider.quirks.takes_stream_options);
    let own = text.replace(
        "model = \"m\"",
        "model = \"m\"\nurl = \"http://h/v1/\"\napi = \"messages\"",
    );
    let provider = settings(&own, &[("MISTRAL_API_KEY", "k")])
        .expect("the configuration is right")
        .provider;
    assert_eq!(
        (provider.api, provider.url.as_str()),
        (ProviderApi::Messages, "http://h/v1")
    );
}

#[test]
fn a_provider_without_a_vendor_uses_the_usual_variable_at_the_usual_address_alone() {
    let text = "[providers.hosted]\nmodel = \"m\"\nenabled = true\n";
    let usual = [("ANTHROPIC_API_KEY", "usual")];
    let key = |text: &str| settings(text, &usual).map(|settings| settings.provider.api_key);
    assert_eq!(key(text), Ok(Some(Secret::new("usual"))));
    let elsewhere = format!("{text}url = \"http://h\"\n");
    assert!(key(&elsewhere).is_err(), "that server is not the vendor's");
}

#[test]
fn mistakes_about_vendors_name_what_helps() {
    let selected = |provider: &str, vendor: &str, further: &str| {
        let text = format!("[providers.{provider}]\nvendor = \"{vendor}\"\nenabled = true\n{further}");
        let (message, hint) = problem(&text, &[("GROQ_API_KEY", "k")]);
        format!("{message}\nhint: {hint}")
    };
    insta::assert_snapshot!(selected("hosted", "antropic", ""), @"
    There is no vendor `antropic`
    hint: did you mean `anthropic`; a vendor of your own needs `url` in [vendors.antropic]
    ");
    insta::assert_snapshot!(selected("hosted", "ollama", ""), @"
    The vendor `ollama` belongs to the provider `local`
    hint: `tool models use ollama` enables it there
    ");
    insta::assert_snapshot!(selected("hosted", "groq", "[vendors.groq]\nenabled = true\n"), @"
    Failed to parse config: `enabled` does not belong into [vendors.groq]
    hint: set it in [providers.hosted], [providers.local] or [providers.router]
    ");
    insta::assert_snapshot!(selected("hosted", "groq", "[vendors.groq]\nmodel = \"m\"\nthinking_budget = 20\n"), @"
    `thinking_budget` of the vendor `groq` is 0 (no thinking) or at least 128
    hint: mend [vendors.groq] of config.toml
    ");
    insta::assert_snapshot!(selected("hosted", "groq", "[vendors.groq]\nmodel = \"m\"\napi_key = \"k\"\napi_key_command = [\"pass\"]\n"), @"
    the vendor `groq` has both `api_key` and `api_key_command`
    hint: mend [vendors.groq] of config.toml
    ");
    insta::assert_snapshot!(selected("hosted", "groq", "[vendors.Groq]\nmodel = \"m\"\n"), @"
    Failed to parse config: `Groq` cannot be the name of a vendor
    hint: use up to 40 lower-case letters, digits, `-` and `_`; hosted, local, router and analyst are taken
    ");
}

#[test]
fn a_model_has_the_price_of_the_file() {
    let text =
        "[providers.local]\nmodel = \"a\"\nenabled = true\n[prices.a]\ninput = 3\noutput = 15\ncache_read = 0.3\n";
    let mut provider = settings(text, &[]).expect("the configuration is right").provider;
    let tokens = PaidTokens {
        input: 1000,
        cache_read: 600,
        output: 10,
        ..PaidTokens::default()
    };
    let cost = |provider: &ProviderSettings| provider.price().map(|price| price.cost_nanos(tokens));
    assert_eq!(cost(&provider), Some(1_200_000 + 180_000 + 150_000));
    provider.set_model("b".to_owned());
    assert_eq!(cost(&provider), None);
    let wrong = problem(&text.replace("input = 3", "input = -3"), &[]);
    assert_eq!(
        wrong.0,
        "Failed to parse config: a price lies between 0 and 1000000 US dollars for a million tokens"
    );
}

#[test]
fn another_model_of_a_deployment_has_another_url() {
    let text = "[providers.hosted]\nvendor = \"azure\"\nenabled = true\n[vendors.azure]\nmodel = \"a\"\n\
                url = \"https://{resource}.example/d/{model}?v=1\"\nresource = \"mine\"\napi_key = \"k\"\n";
    let mut provider = settings(text, &[]).expect("the configuration is right").provider;
    assert_eq!(provider.url, "https://mine.example/d/a?v=1");
    provider.set_model("b/c".to_owned());
    assert_eq!(provider.url, "https://mine.example/d/b%2Fc?v=1");
}

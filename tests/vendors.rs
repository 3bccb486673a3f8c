//! Vendors by name: every preset against its played form, keys that stay with their own vendor, and switching.

mod setup;

use std::path::Path;

use serde_json::{Value, json};
use tool_config::{PRESETS, Preset};
use tool_model_server::{ModelServer, RecordedRequest, Round, Script, ScriptedCall};

use crate::providers::{repository, serve};
use crate::support::{Finished, Home, finish, holds};

/// The path of a preset's URL, placeholders and all.
fn path_of(preset: &Preset) -> &'static str {
    let (_, rest) = preset.url.split_once("://").expect("it is a URL");
    rest.find('/').map_or("", |at| &rest[at..])
}

/// A configuration that uses a vendor, played by a server at the vendor's own path.
fn config_of(preset: &Preset, server: &ModelServer, further: &str) -> String {
    let (name, provider) = (preset.name, preset.provider);
    let url = format!("{}{}", server.root(), path_of(preset));
    format!(
        "[providers.{provider}]\nvendor = \"{name}\"\nenabled = true\n\n[vendors.{name}]\nmodel = \"scripted\"\n\
         url = \"{url}\"\nregion = \"europe-west4\"\nproject = \"shop\"\nresource = \"mine\"\n{further}"
    )
}

fn key_in(variable: &str) -> String {
    format!("key-of-{}-0f1e2d3c4b5a", variable.to_lowercase().replace('_', "-"))
}

/// Every variable that carries some vendor's key.
fn all_variables() -> Vec<&'static str> {
    PRESETS.iter().flat_map(Preset::variables).collect()
}

/// Runs the binary with the keys of all vendors in the environment.
fn with_all_keys(home: &Home, directory: &Path, arguments: &[&str]) -> Finished {
    let mut command = home.tool(directory, arguments);
    command.env("TOOL_LOG_LEVEL", "TRACE");
    for variable in all_variables() {
        command.env(variable, key_in(variable));
    }
    finish(command.output().expect("the binary runs"))
}

/// Everything of a request in which a key could be.
fn text_of(request: &RecordedRequest) -> String {
    format!("{request:?}")
}

/// Every text below a home: the configuration, logs, journals.
fn texts_below(folder: &Path) -> String {
    let mut texts = String::new();
    for entry in ignore::WalkBuilder::new(folder)
        .standard_filters(false)
        .build()
        .flatten()
    {
        if entry.file_type().is_some_and(|kind| kind.is_file()) {
            texts.push_str(&String::from_utf8_lossy(
                &std::fs::read(entry.path()).unwrap_or_default(),
            ));
        }
    }
    texts
}

/// The header in which a vendor expects its key, and the key as it stands there.
fn key_header(preset: &Preset, key: &str) -> (&'static str, String) {
    match preset.name {
        "anthropic" => ("x-api-key", key.to_owned()),
        "gemini" => ("x-goog-api-key", key.to_owned()),
        "azure" => ("api-key", key.to_owned()),
        _ => ("authorization", format!("Bearer {key}")),
    }
}

#[test]
fn every_preset_reaches_its_server_with_its_own_key_alone() {
    let repository = repository();
    for preset in &PRESETS {
        let server = serve([Round::text("It counts crates (app.py:1).")]);
        let home = Home::configured(&config_of(preset, &server, ""));
        let finished = with_all_keys(&home, repository.path(), &["explain", "."]).expect(0);
        assert!(
            finished.stdout.contains("It counts crates"),
            "{}: {finished:?}",
            preset.name
        );
        let requests = server.requests();
        let asked = requests
            .iter()
            .find(|request| request.method == "POST")
            .expect("it was asked");
        let own = preset.variables().next().expect("every vendor has a variable");
        let (header, value) = key_header(preset, &key_in(own));
        assert_eq!(asked.headers.get(header), Some(&value), "{}", preset.name);
        let path = path_of(preset)
            .replace("{region}", "europe-west4")
            .replace("{project}", "shop");
        assert!(asked.path.starts_with(&path), "{}: {}", preset.name, asked.path);
        let sent: String = requests.iter().map(text_of).collect();
        let told = format!("{}{}{}", finished.stdout, finished.stderr, texts_below(home.path()));
        for variable in all_variables() {
            let key = key_in(variable);
            assert!(
                variable == own || !sent.contains(&key),
                "{} got {variable}",
                preset.name
            );
            assert!(!told.contains(&key), "{} tells the key of {variable}", preset.name);
        }
    }
}

#[test]
fn the_book_has_a_section_for_every_preset() {
    let book = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src/vendors.md");
    let book = std::fs::read_to_string(book).expect("the page is there");
    for preset in &PRESETS {
        let (_, section) = book
            .split_once(&format!("\n## {}\n", preset.name))
            .unwrap_or_else(|| panic!("no section for {}", preset.name));
        let section = section.split("\n## ").next().unwrap_or_default();
        let key = preset.usual_variables.first().expect("every vendor has a variable");
        assert!(
            section.contains(&format!("`{}`", preset.provider)) && section.contains(key),
            "{section}"
        );
    }
}

#[test]
fn a_key_of_the_file_lies_between_the_two_kinds_of_variables() {
    let repository = repository();
    let sent = |name: &str, variables: &[&str], further: &str| {
        let preset = Preset::find_by_name(name).expect("it is there");
        let server = serve([Round::text("Fine.")]);
        let home = Home::configured(&config_of(preset, &server, further));
        let mut command = home.tool(repository.path(), &["explain", "."]);
        command.envs(variables.iter().map(|variable| (*variable, key_in(variable))));
        finish(command.output().expect("the binary runs")).expect(0);
        let shown = with_all_keys(&home, repository.path(), &["config"]).expect(0);
        assert!(!shown.stdout.contains("key-of-"), "{}", shown.stdout);
        let request = server.requests().into_iter().find(|request| request.method == "POST");
        request.expect("it was asked").headers
    };
    let of_file = "api_key = \"key-of-the-file\"\n";
    let headers = sent("anthropic", &["HOSTED_API_KEY", "ANTHROPIC_API_KEY"], of_file);
    assert_eq!(headers["x-api-key"], key_in("HOSTED_API_KEY"));
    let headers = sent("anthropic", &["ANTHROPIC_API_KEY"], of_file);
    assert_eq!(headers["x-api-key"], "key-of-the-file");
    let headers = sent("anthropic", &["ANTHROPIC_API_KEY"], "");
    assert_eq!(headers["x-api-key"], key_in("ANTHROPIC_API_KEY"));
    // The specification's variables mean nothing to a vendor that they do not belong to.
    let headers = sent("groq", &["HOSTED_API_KEY", "VENDOR_B_API_KEY", "GROQ_API_KEY"], "");
    assert_eq!(headers["authorization"], format!("Bearer {}", key_in("GROQ_API_KEY")));
}

#[test]
fn a_vendor_without_its_key_gets_no_other_and_says_where_it_belongs() {
    let groq = "[providers.hosted]\napi_key = \"of-hosted\"\nvendor = \"groq\"\nenabled = true\n[vendors.groq]\nmodel = \"m\"\n";
    let home = Home::configured(groq);
    let mut command = home.tool(Path::new("/"), &["explain", "."]);
    for variable in all_variables()
        .into_iter()
        .filter(|variable| *variable != "GROQ_API_KEY")
    {
        command.env(variable, key_in(variable));
    }
    let finished = finish(command.output().expect("the binary runs")).expect(2);
    insta::assert_snapshot!(finished.stderr, @"
    [error] No API key for the vendor `groq`
    hint: set GROQ_API_KEY, or `api_key` or `api_key_command` in [vendors.groq] of config.toml
    ");
}

#[test]
fn options_shape_requests_and_headers_are_keys() {
    let repository = repository();
    let server = serve([Round::text("Fine, t0ken-of-the-gateway.")]);
    let further = "reasoning_effort = \"low\"\ntemperature = 0.5\nmax_output_tokens = 4000\n\
                   headers = { X-Gateway = \"Bearer ${GATEWAY}\" }\n";
    let preset = Preset::find_by_name("openai").expect("it is there");
    let config = config_of(preset, &server, further).replace("/v1\"", "/v1?api-version=7\"");
    let config = config.replace("[vendors.openai]\n", "[vendors.openai]\napi = \"chat\"\n");
    let home = Home::configured(&config);
    let mut command = home.tool(repository.path(), &["explain", "."]);
    command
        .env("OPENAI_API_KEY", "of-openai")
        .env("GATEWAY", "t0ken-of-the-gateway");
    let finished = finish(command.output().expect("the binary runs")).expect(0);
    let requests = server.requests();
    let asked = requests
        .iter()
        .find(|request| request.method == "POST")
        .expect("it was asked");
    assert_eq!(asked.body["reasoning_effort"], "low");
    assert_eq!(asked.body["temperature"], 0.5);
    assert_eq!(asked.body["max_completion_tokens"], 4000);
    assert_eq!(
        (asked.path.as_str(), asked.query.as_str()),
        ("/v1/chat/completions", "api-version=7")
    );
    assert_eq!(asked.headers["x-gateway"], "Bearer t0ken-of-the-gateway");
    let told = format!("{}{}{}", finished.stdout, finished.stderr, texts_below(home.path()));
    assert!(!told.contains("t0ken-of-the-gateway"), "{}", finished.stdout);

    let unset = home.run(repository.path(), &["explain", "."]).expect(2);
    holds(&unset.stderr, &["No API key for the vendor `openai`"]);
    let mut command = home.tool(repository.path(), &["explain", "."]);
    command.env("OPENAI_API_KEY", "of-openai");
    let unset = finish(command.output().expect("the binary runs")).expect(2);
    holds(
        &unset.stderr,
        &["`X-Gateway`", "the variable GATEWAY, which is not set"],
    );
}

#[test]
fn a_deployment_of_azure_is_reached_with_its_version() {
    let repository = repository();
    let server = serve([Round::text("Fine.")]);
    let url = format!("{}/openai/deployments/{{model}}?api-version=2024-10-21", server.root());
    let home = Home::configured(&format!(
        "[providers.hosted]\nvendor = \"azure\"\nenabled = true\n[vendors.azure]\nmodel = \"my-gpt\"\nurl = \"{url}\"\n"
    ));
    let mut command = home.tool(repository.path(), &["explain", "."]);
    command.env("AZURE_OPENAI_API_KEY", "of-azure");
    finish(command.output().expect("the binary runs")).expect(0);
    let requests = server.requests();
    let asked = requests
        .iter()
        .find(|request| request.method == "POST")
        .expect("it was asked");
    assert_eq!(asked.path, "/openai/deployments/my-gpt/chat/completions");
    assert_eq!(asked.query, "api-version=2024-10-21");
    assert_eq!(asked.headers["api-key"], "of-azure");
    assert!(!asked.headers.contains_key("authorization"));
}

/// A file that a program keeps, beside a home.
fn key_program(home: &Home, script: &str) -> String {
    use std::os::unix::fs::PermissionsExt;
    let place = home.path().join("print-key");
    std::fs::write(&place, format!("#!/bin/sh\n{script}\n")).expect("the folder is writable");
    std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    place.display().to_string()
}

#[test]
fn a_program_prints_the_key_and_runs_once_more_after_a_refusal() {
    let repository = repository();
    let refusal = json!({"error": {"message": "expired", "type": "invalid_request_error"}});
    let server = serve([Round::status(401, refusal.clone()), Round::text("Fine.")]);
    let home = Home::empty();
    let count = home.path().join("runs");
    let program = key_program(
        &home,
        &format!(
            "echo noise >&2\necho x >> '{0}'\necho printed-key-$(wc -l < '{0}' | tr -d ' ')",
            count.display()
        ),
    );
    let preset = Preset::find_by_name("mistral").expect("it is there");
    let config = config_of(preset, &server, &format!("api_key_command = [\"{program}\"]\n"));
    std::fs::write(home.path().join("config.toml"), config).expect("the folder is writable");
    let finished = with_only(&home, repository.path(), &["explain", "."]).expect(0);
    let keys: Vec<String> = server
        .requests()
        .iter()
        .filter(|request| request.method == "POST")
        .map(|request| request.headers["authorization"].clone())
        .collect();
    assert_eq!(keys, ["Bearer printed-key-1", "Bearer printed-key-2"]);
    std::fs::remove_file(home.path().join("print-key")).expect("it is there");
    let told = format!("{}{}{}", finished.stdout, finished.stderr, texts_below(home.path()));
    assert!(!told.contains("printed-key"), "{finished:?}");

    let gone = with_only(&home, repository.path(), &["explain", "."]).expect(2);
    holds(&gone.stderr, &["No API key: `", "of `api_key_command` failed"]);
}

#[test]
fn a_key_that_a_program_prints_goes_to_no_model_and_into_no_report() {
    let printed = "printed-key-0f1e2d3c4b5a69788796";
    let repository = repository();
    let notes = format!("# Crates\n\nCounts crates. The key is {printed}.\n");
    std::fs::write(repository.path().join("README.md"), notes).expect("the folder is writable");
    let server = serve([
        Round::calls([ScriptedCall::new("read_file", json!({"path": "README.md"}))]),
        Round::text(&format!("It counts crates with {printed} (app.py:1).")),
    ]);
    let home = Home::empty();
    let program = key_program(&home, &format!("echo {printed}"));
    let preset = Preset::find_by_name("mistral").expect("it is there");
    let config = config_of(preset, &server, &format!("api_key_command = [\"{program}\"]\n"));
    std::fs::write(home.path().join("config.toml"), config).expect("the folder is writable");
    let finished = with_only(&home, repository.path(), &["explain", "."]).expect(0);
    let requests = server.requests();
    let asked: Vec<&RecordedRequest> = requests.iter().filter(|request| request.method == "POST").collect();
    assert_eq!(asked.len(), 2);
    for request in asked {
        let body = request.body.to_string();
        assert!(
            body.contains("[redacted:model-api-key") && !body.contains(printed),
            "{body}"
        );
    }
    std::fs::remove_file(home.path().join("print-key")).expect("it is there");
    let reports = texts_below(&repository.path().join("session-reports"));
    assert!(reports.contains("It counts crates"), "{reports}");
    let told = format!(
        "{}{}{}{reports}",
        finished.stdout,
        finished.stderr,
        texts_below(home.path())
    );
    assert!(!told.contains(printed), "{finished:?}");
}

#[test]
fn a_server_without_a_model_list_is_a_warning() {
    let server = serve([Round::text("Fine.")]);
    let repository = repository();
    let gateway = |vendor: &str| {
        format!(
            "[providers.hosted]\nvendor = \"{vendor}\"\nenabled = true\n[vendors.{vendor}]\nmodel = \"m\"\napi_key = \
             \"of-{vendor}\"\nurl = \"{}/gateway\"\nproject = \"p\"\nregion = \"global\"\n",
            server.root()
        )
    };
    for (vendor, expected) in [
        ("mine", "has no model list"),
        ("vertex", "vertex has no list of models"),
    ] {
        let home = Home::configured(&gateway(vendor));
        let doctor = home.run(repository.path(), &["doctor"]).expect(0).stdout;
        holds(&doctor, &["warn", expected]);
    }
    let home = Home::configured(&gateway("mine"));
    home.run(repository.path(), &["explain", "."]).expect(0);
}

/// Runs the binary with no key in the environment, and everything logged.
fn with_only(home: &Home, directory: &Path, arguments: &[&str]) -> Finished {
    let mut command = home.tool(directory, arguments);
    command.env("TOOL_LOG_LEVEL", "TRACE");
    finish(command.output().expect("the binary runs"))
}

fn list(server_models: &[&str]) -> ModelServer {
    let script = Script {
        models: server_models.iter().map(|name| (*name).to_owned()).collect(),
        ..Script::new([])
    };
    ModelServer::start(script).expect("loopback has a free port")
}

#[test]
fn models_lists_servers_and_switches_between_them() {
    let server = list(&["small", "large", "text-embedding"]);
    let home = Home::configured(&format!(
        "[providers.hosted]\nmodel = \"m\"\napi_key = \"of-hosted\"\nenabled = true\n\n[vendors.ollama]\nmodel = \
         \"small\"\nurl = \"{}\"\n\n[vendors.groq]\napi_key = \"of-groq\"\n",
        server.url()
    ));
    let nowhere = Path::new("/");
    let used = home.run(nowhere, &["models", "use", "ollama"]).expect(0);
    assert!(
        used.stdout.ends_with("ollama is enabled, with the model small.\n"),
        "{}",
        used.stdout
    );
    let listed = home.run(nowhere, &["models"]).expect(0);
    insta::with_settings!({filters => [(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT")]}, {
        insta::assert_snapshot!(listed.stdout, @"
          hosted  m         https://api.anthropic.com
          groq    no model  No model is set for the vendor `groq`
        * ollama  small     http://127.0.0.1:PORT/v1

        small
        large
        ");
    });
    let report: Value =
        serde_json::from_str(&home.run(nowhere, &["models", "--json"]).expect(0).stdout).expect("it is JSON");
    assert_eq!(report["models"], json!([{"id": "small"}, {"id": "large"}]));
    assert!(!report.to_string().contains("of-groq"));

    let refused = home.run(nowhere, &["models", "use", "groq"]).expect(2);
    holds(
        &refused.stderr,
        &["No model is set for the vendor `groq`", "`tool models use groq MODEL`"],
    );
    home.run(nowhere, &["models", "use", "groq", "fast"]).expect(0);
    let back = home.run(nowhere, &["models", "use", "hosted"]).expect(0);
    assert!(
        back.stdout.contains("hosted is enabled, with the model m."),
        "{}",
        back.stdout
    );
    let text = std::fs::read_to_string(home.path().join("config.toml")).expect("it is there");
    holds(
        &text,
        &["api_key = \"of-hosted\"", "api_key = \"of-groq\"", "model = \"fast\""],
    );
    let unknown = home.run(nowhere, &["models", "use", "antropic"]).expect(2);
    holds(
        &unknown.stderr,
        &["There is no vendor `antropic`", "did you mean `anthropic`"],
    );
}

#[test]
fn init_with_a_vendor_asks_nothing_and_writes_nothing_that_cannot_work() {
    let nowhere = Path::new("/");
    let home = Home::empty();
    let no_key = home
        .run(nowhere, &["init", "--vendor", "anthropic", "--model", "m"])
        .expect(2);
    holds(
        &no_key.stderr,
        &["No API key for the vendor `anthropic`", "set ANTHROPIC_API_KEY"],
    );
    let mut command = home.tool(nowhere, &["init", "--vendor", "anthropic"]);
    command.env("ANTHROPIC_API_KEY", "k");
    let no_model = finish(command.output().expect("the binary runs")).expect(2);
    holds(&no_model.stderr, &["No model is set for the vendor `anthropic`"]);
    let no_region = home
        .run(
            nowhere,
            &["init", "--vendor", "bedrock", "--model", "m", "--url", "ftp://h"],
        )
        .expect(2);
    holds(&no_region.stderr, &["neither http:// nor https://"]);
    assert!(!home.path().join("config.toml").exists());

    let mut command = home.tool(
        nowhere,
        &["init", "--vendor", "vertex", "--model", "m", "--project", "p"],
    );
    command.env("GOOGLE_OAUTH_ACCESS_TOKEN", "k");
    let no_region = finish(command.output().expect("the binary runs")).expect(2);
    holds(&no_region.stderr, &["No `region` is set for the vendor `vertex`"]);

    let done = home
        .run(nowhere, &["init", "--vendor", "ollama", "--model", "m"])
        .expect(0);
    assert!(
        done.stdout
            .ends_with("the vendor `ollama` is enabled, at http://127.0.0.1:11434/v1.\n"),
        "{}",
        done.stdout
    );
}

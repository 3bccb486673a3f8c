//! Local servers: absent, not a model server, too small a context, no tools.

use super::*;
use crate::context_size::PROVIDER_CONTEXT_SECONDS_MAX;
use tool_core::api::ErrorKind;

#[tokio::test]
async fn local_20_nobody_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener.local_addr().expect("it is bound");
    drop(listener);
    let answer = answer_of(&settings(&format!("http://{address}/v1")), CancellationToken::new()).await;
    let problem = answer.problem();
    assert_eq!(problem.message, format!("Connection refused: {address}"));
    assert_eq!(problem.kind, ErrorKind::ConnectionRefused);
    assert!(
        problem
            .hint
            .as_ref()
            .is_some_and(|hint| hint.starts_with("start the local model server"))
    );
}

#[tokio::test]
async fn local_20_the_port_answers_but_is_no_model_server() {
    let mut page = Round::new([
        ServerStep::Raw("<html><title>Index of /</title></html>".into()),
        ServerStep::End,
    ]);
    page.content_type = Some("text/html".into());
    let pages = ModelServer::start(Script::new([page])).expect("loopback has a free port");
    let post_not_served = ModelServer::start(Script::new([Round::status(501, "<html><title>Error</title></html>")]))
        .expect("loopback has a free port");
    for url in [pages.url(), post_not_served.url()] {
        let problem = answer_of(&settings(&url), CancellationToken::new())
            .await
            .problem()
            .clone();
        assert_eq!(problem.kind, ErrorKind::NotAModelServer, "{problem}");
        assert!(
            problem
                .message
                .starts_with(&format!("No model server at {url}: it answered ")),
            "{problem}"
        );
    }
    let missing = ModelServer::start(Script::new([Round::status(404, json!({"detail": "Not Found"}))]))
        .expect("loopback has a free port");
    let problem = answer(&missing).await.problem().clone();
    assert_eq!(problem.kind, ErrorKind::NotAModelServer);
    let hint = problem.hint.expect("there is advice");
    assert!(hint.starts_with("check `url` and `model`: "), "{hint}");

    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.9\r\n");
        }
    });
    let problem = answer_of(&settings(&url), CancellationToken::new())
        .await
        .problem()
        .clone();
    assert_eq!(
        problem.message,
        format!("No model server at {url}: it answered something that is not HTTP")
    );
}

#[tokio::test]
async fn local_21_overflow_in_every_form_is_named_and_not_tried_again() {
    let words = "the request exceeds the available context size, try increasing it";
    let llama = json!({"error": {
        "code": 400, "message": words, "type": "exceed_context_size_error", "n_prompt_tokens": 9000, "n_ctx": 4096,
    }});
    let words = "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens";
    let vendor = json!({"error": {"message": words, "code": "context_length_exceeded"}});
    let messages_api = json!({"error": {"message": "prompt is too long: 210000 tokens > 200000 maximum"}});
    for (status, body, message) in [
        (400, llama.clone(), "Context length exceeded: 4096 tokens"),
        (500, llama, "Context length exceeded: 4096 tokens"),
        (400, vendor, "Context length exceeded: 8192 tokens"),
        (413, messages_api, "Context length exceeded: 200000 tokens"),
    ] {
        let (answer, requests) = play([Round::status(status, body)]).await;
        assert_eq!((answer.problem().message.as_str(), requests), (message, 1));
        assert_eq!(answer.problem().kind, ErrorKind::ContextLengthExceeded);
    }
    let (answer, _) = play([Round::status(413, "")]).await;
    assert!(answer.problem().message.starts_with("Context length exceeded: about "));
}

#[tokio::test]
async fn local_21_an_answer_without_any_delta_is_said_to_be_empty() {
    // By hand: the scripted server's opening chunk would be a delta.
    for body in ["data: [DONE]\n\n", "", ": ping\n\n"] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let url = format!("http://{}/v1", listener.local_addr().expect("it is bound"));
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("somebody connects");
            let _ = stream.read(&mut [0; 4096]);
            let _ = write!(stream, "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{body}");
        });
        let answer = answer_of(&settings(&url), CancellationToken::new()).await;
        assert_eq!(answer.problem().kind, ErrorKind::ProviderEmptyAnswer);
        assert!(
            answer
                .problem()
                .hint
                .as_ref()
                .is_some_and(|hint| hint.contains("tokens were sent"))
        );
    }
}

#[tokio::test]
async fn local_22_template_failures_and_missing_tools_name_the_flags() {
    for (status, message, flag) in [
        (500, "Jinja Exception: Only user roles are supported", "--jinja"),
        (400, "tools param requires --jinja flag", "--jinja"),
        (
            400,
            "\"auto\" tool choice requires --enable-auto-tool-choice",
            "--enable-auto-tool-choice",
        ),
        (400, "registry/tiny does not support tools", "--jinja"),
    ] {
        let (answer, requests) = play([Round::status(status, json!({"error": {"message": message}}))]).await;
        assert_eq!(answer.problem().kind, ErrorKind::ToolsUnsupported, "{message}");
        assert!(
            answer.problem().hint.as_ref().is_some_and(|hint| hint.contains(flag)),
            "{message}"
        );
        assert_eq!(requests, 1);
    }
    // As an error within the stream, after the status was sent.
    let (answer, _) = play([Round::new([ServerStep::Error(
        json!({"message": "Error rendering prompt with jinja template"}),
    )])])
    .await;
    assert_eq!(answer.problem().kind, ErrorKind::ToolsUnsupported);
}

#[tokio::test]
async fn local_21_a_prompt_that_was_cut_in_silence_raises_the_alarm_once() {
    let counted = |input, cached| {
        let usage = ScriptedUsage {
            input,
            output: 1,
            cached,
        };
        Round::new([ServerStep::Text("Hi".into()), ServerStep::Usage(usage)])
    };
    let long = [Message::User {
        text: "word ".repeat(8000),
    }];
    let server = server([counted(4096, 0), counted(4096, 0)]);
    let provider = connect_with(&settings(&server.url()), &options()).expect("the settings are valid");
    let first = answer_to(&*provider, &long, CancellationToken::new()).await;
    let [notice] = first.notices()[..] else {
        panic!("one notice, not {:?}", first.events);
    };
    assert_eq!(
        notice,
        "The server read 4096 tokens of a prompt of about 10003: it may have cut the front in silence, instructions and \
         tools first. Load the model with a larger context, or target fewer or smaller files."
    );
    let second = answer_to(&*provider, &long, CancellationToken::new()).await;
    assert!(second.notices().is_empty() && second.completed(), "said once");
    // A count that fits, one that leaves the cache out, and a short prompt.
    for (round, messages) in [
        (counted(8000, 0), &long[..]),
        (counted(90, 9000), &long[..]),
        (counted(1, 0), &messages()[..]),
    ] {
        let server = super::server([round]);
        let provider = connect_with(&settings(&server.url()), &options()).expect("the settings are valid");
        let answer = answer_to(&*provider, messages, CancellationToken::new()).await;
        assert!(answer.notices().is_empty(), "{:?}", answer.events);
    }
}

#[tokio::test]
async fn local_21_the_contexts_size_is_asked_once_and_a_longer_prompt_is_told_before() {
    let server = ModelServer::start(Script {
        get: [(
            "/v1/models".to_owned(),
            json!({"data": [{"id": "tiny", "meta": {"n_ctx": 4096}}]}),
        )]
        .into(),
        ..Script::new([Round::text("Hi")])
    })
    .expect("loopback has a free port");
    let provider = connect_with(&settings(&server.url()), &options()).expect("the settings are valid");
    for _ in 0..3 {
        assert_eq!(provider.context_tokens().await, Some(4096));
    }
    assert_eq!(server.lists().len(), 1);
    let long = [Message::User {
        text: "word ".repeat(8000),
    }];
    let answer = answer_to(&*provider, &long, CancellationToken::new()).await;
    let expected = "About 10003 tokens are sent, and the model was loaded with a context of 4096";
    assert!(answer.notices()[0].starts_with(expected), "{:?}", answer.notices());
    assert!(answer.completed());
}

#[tokio::test]
async fn local_21_the_contexts_size_is_looked_for_where_each_kind_of_server_tells_it() {
    let list = json!({"object": "list", "data": [{"id": "tiny"}, {"id": "other"}]});
    let loaded = json!({"models": [
        {"key": "other", "loaded_instances": [{"id": "other", "config": {"context_length": 1024}}]},
        {"key": "tiny", "max_context_length": 131_072, "loaded_instances": [
            {"id": "tiny", "config": {"context_length": 8192}},
        ]},
    ]});
    let found = |get: &[(&str, &Value)]| {
        let server = ModelServer::start(Script {
            get: get
                .iter()
                .map(|(path, body)| ((*path).to_owned(), (*body).clone()))
                .collect(),
            ..Script::new([])
        });
        let server = server.expect("loopback has a free port");
        async move { (context_size(&settings(&server.url())).await, server.lists().len()) }
    };
    assert_eq!(
        found(&[("/v1/models", &list), ("/api/v1/models", &loaded)]).await,
        (Some(8192), 2)
    );
    let props = json!({"default_generation_settings": {"n_ctx": 2048}});
    assert_eq!(found(&[("/v1/models", &list), ("/props", &props)]).await.0, Some(2048));
    // The properties of llama.cpp are asked for once, for the chat template and the size.
    let llama = json!({"data": [{"id": "tiny", "owned_by": "llamacpp"}]});
    assert_eq!(
        found(&[("/v1/models", &llama), ("/props", &props)]).await,
        (Some(2048), 2)
    );
    let running = json!({"models": [{"name": "tiny", "context_length": 4096}]});
    assert_eq!(
        found(&[("/v1/models", &list), ("/api/ps", &running)]).await.0,
        Some(4096)
    );
    assert_eq!(found(&[("/v1/models", &list)]).await.0, None);
}

#[tokio::test]
async fn the_size_of_a_hosted_model_is_read_from_the_vendors_list_once_in_thirty_days() {
    let list = json!({"data": [{"id": "tiny", "context_window": 32_768}, {"id": "silent"}]});
    let server = ModelServer::start(Script {
        get: [("/v1/models".to_owned(), list)].into(),
        ..Script::new([Round::text("Hi"), Round::text("Hi")])
    });
    let server = server.expect("loopback has a free port");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("models.json");
    let options = Options {
        learned: Some(file.clone()),
        ..options()
    };
    for (model, size, asked) in [("tiny", Some(32_768), 1), ("silent", None, 2)] {
        let settings = ProviderSettings {
            model: model.to_owned(),
            ..wires(&server)[1].clone()
        };
        for _ in 0..2 {
            let provider = connect_with(&settings, &options).expect("the settings are valid");
            assert_eq!(provider.context_tokens().await, size);
            let written = || std::fs::read_to_string(&file).is_ok_and(|text| text.matches("until").count() == asked);
            let begun = Instant::now();
            while !written() {
                let waited = begun.elapsed();
                assert!(
                    waited < Duration::from_secs(30),
                    "the context size of {model} was not written"
                );
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        assert_eq!(server.lists().len(), asked, "of {model}");
    }
    for settings in wires(&server) {
        assert_eq!(
            context_size(&settings).await,
            Some(32_768).filter(|_| settings.api != ProviderApi::GenerateContent)
        );
    }
}

#[tokio::test]
async fn local_21_a_server_that_does_not_tell_its_context_is_not_waited_for() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let url = format!("http://{}/v1", silent.local_addr().expect("it is bound"));
    let started = Instant::now();
    assert_eq!(context_size(&settings(&url)).await, None);
    let bound = Duration::from_secs(PROVIDER_CONTEXT_SECONDS_MAX);
    assert!(
        started.elapsed() < bound + Duration::from_secs(15),
        "{:?}",
        started.elapsed()
    );
    drop(silent);
    assert_eq!(context_size(&settings(&url)).await, None);
}

#[tokio::test]
async fn local_22_template_failures_come_as_text_too() {
    let said = "Error rendering prompt with jinja template: \"Only user and assistant roles are supported\"";
    let whole = Canned::answer("200 OK", "text/plain", said);
    let as_event = Canned::stream(&format!("data: {said}\n\n"));
    let chunk = |text: &str| json!({"choices": [{"delta": {"content": text}}]});
    let as_text = Canned::stream(&format!(
        "data: {}\n\ndata: {}\n\ndata: {}\n\n",
        chunk("Error rendering"),
        chunk(&said["Error rendering".len()..]),
        json!({"choices": [{"delta": {}, "finish_reason": "stop"}]}),
    ));
    for answer in [whole, as_event, as_text] {
        let server = Canned::new([answer.clone()]);
        let answered = answer_of(&settings(&server.url()), CancellationToken::new()).await;
        assert_eq!(answered.problem().kind, ErrorKind::ToolsUnsupported, "{answer}");
        assert!(answered.hint().contains("--jinja"), "{answer}");
        assert_eq!(server.asked(), ["POST /v1/chat/completions"]);
    }
    // A model that writes about templates is no failure.
    let (answer, _) = play([Round::text(
        "The function is named render. Error rendering prompt is its message.",
    )])
    .await;
    assert!(answer.completed(), "{:?}", answer.error);
}

#[tokio::test]
async fn local_20_a_server_that_does_not_stream_is_read_too() {
    let body = json!({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]});
    for answer in [
        Canned::json(&body),
        Canned::answer("200 OK", "text/plain", &format!("{body:#}")),
    ] {
        let server = Canned::new([answer]);
        let answered = answer_of(&settings(&server.url()), CancellationToken::new()).await;
        assert_eq!(answered.text(), "Hi", "{:?}", answered.error);
    }
}

#[tokio::test]
async fn local_20_a_server_that_wants_a_key_is_told_from_one_that_refuses_it() {
    for (key, hint) in [
        (
            None,
            "this server wants a key: set `api_key` under `[providers.local]` in ~/.tool/config.toml; the \
             provider says: no",
        ),
        (
            Some(Secret::new(KEY)),
            "run `tool init` again, or set `api_key` under `[providers.local]` in ~/.tool/config.toml; the provider \
             says: no",
        ),
    ] {
        let server = server([Round::status(401, json!({"error": {"message": "no"}}))]);
        let settings = ProviderSettings {
            api_key: key,
            ..settings(&server.url())
        };
        let answer = answer_of(&settings, CancellationToken::new()).await;
        assert_eq!(answer.problem().hint.as_deref(), Some(hint));
    }
}

#[tokio::test]
async fn a_server_counts_tokens_where_it_has_a_tokenizer_and_is_not_asked_again_where_it_has_none() {
    let messages = messages();
    let request = ModelRequest {
        system: "Be brief.",
        messages: &messages,
        tools: &[],
        max_tokens: None,
        mark: LabelMark(7),
    };
    for (bytes_per_token, expected) in [(Some(1.0), true), (None, false)] {
        let server = ModelServer::start(Script {
            bytes_per_token,
            ..Script::new([])
        });
        let server = server.expect("loopback has a free port");
        let provider = connect_with(&settings(&server.url()), &options()).expect("the settings are valid");
        for _ in 0..2 {
            let counted = provider.count_tokens(&request).await;
            // Roles and line ends count as well.
            let is_right = counted.is_some_and(|tokens| tokens >= request.bytes() as u64);
            assert_eq!((counted.is_some(), is_right), (expected, expected), "{counted:?}");
        }
    }
}

//! The questions of a set-up on a real terminal: each keystroke is counted, and no key is ever shown.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use serde_json::json;
use tool_model_server::{ModelServer, Round, Script};

use crate::providers::repository;
use crate::support::{Finished, Home, finish};

/// Types each answer once its question has appeared, and prints everything that the terminal showed.
const TYPIST: &str = r"
import fcntl, json, os, pty, struct, sys, termios
answers = json.loads(os.environ.pop('ANSWERS'))
columns = int(os.environ.pop('COLUMNS_WANTED', '80'))
pid, master = pty.fork()
if pid == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack('HHHH', 24, columns, 0, 0))
    os.execv(sys.argv[1], sys.argv[1:])
written, seen = b'', 0
while True:
    try:
        piece = os.read(master, 65536)
    except OSError:
        break
    if not piece:
        break
    written += piece
    if answers and answers[0][0].encode() in written[seen:]:
        seen = len(written)
        os.write(master, answers.pop(0)[1].encode())
sys.stdout.buffer.write(written)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) & 255)
";

/// A question's end, and the input after it.
type Typed<'a> = (&'a str, &'a str);

/// Runs the binary on a terminal of lines.
#[expect(clippy::disallowed_methods, reason = "a terminal is made by a program of its own")]
fn typed(
    home: &Home,
    directory: &Path,
    arguments: &[&str],
    answers: &[Typed<'_>],
    variables: &[(&str, &str)],
) -> Finished {
    let tool = home.tool(directory, &[]);
    let mut command = Command::new("python3");
    command
        .args(["-c", TYPIST, env!("CARGO_BIN_EXE_tool")])
        .args(arguments)
        .current_dir(directory)
        .env_clear()
        .env("TERM", "dumb")
        .env("ANSWERS", json!(answers).to_string())
        .stdin(Stdio::null());
    for (name, value) in tool.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    command.envs(variables.iter().copied());
    finish(command.output().expect("there is Python"))
}

/// Keys pressed for a command and its answers, the key of a vendor apart.
fn keystrokes(commands: &[&str], answers: &[Typed<'_>], key: &str) -> usize {
    let typed = commands.iter().map(|command| command.len() + 1);
    let answered = answers.iter().map(|(_, answer)| answer.replace(key, "").len());
    typed.chain(answered).sum()
}

fn server_on(address: SocketAddr, models: &[&str], rounds: &[&str]) -> ModelServer {
    let script = Script {
        models: models.iter().map(|name| (*name).to_owned()).collect(),
        ..Script::new(rounds.iter().map(|text| Round::text(text)))
    };
    ModelServer::start_on(address, script).expect("nothing else listens there")
}

const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);
/// Held by a test while it listens on the usual port of Ollama.
static OLLAMA_PORT: Mutex<()> = Mutex::new(());

const OLLAMA: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 11434);

const ANSWER: &str = "It counts crates (app.py:1).";
const KEY: &str = "sk-typed-0f1e2d3c4b5a69788796";

/// The screen without what differs between runs.
fn screen(shown: &Finished, home: &Home) -> String {
    let text = shown.stdout.replace('\r', "");
    text.replace(&home.path().display().to_string(), "~/.tool")
}

/// The part of the screen from the first question of the set-up to the last line of it.
fn questions(screen: &str) -> String {
    let from = screen.find("Which vendor?").expect("it was asked");
    let known = |line: &&str| !line.contains("runs on port") || line.contains("11434");
    screen[from..].lines().filter(known).collect::<Vec<_>>().join("\n")
}

/// A screen without ports, session numbers, times and what else this machine has to offer.
fn without_differences(screen: &str) -> String {
    let patterns = [
        (r"127\.0\.0\.1:\d{5}", "127.0.0.1:PORT"),
        (r"name \[\w+\]: ", "name [FIRST]: "),
        (r"session_[0-9_]+_[0-9a-f-]+\.md", "session_ID.md"),
        (r"/\S*/session-reports", "session-reports"),
        (r"[0-9,]+ tokens", "N tokens"),
        (r"session [0-9a-f]{8}", "session ID"),
    ];
    let clean = |text: String, (pattern, instead): (&str, &str)| {
        let pattern = regex::Regex::new(pattern).expect("a constant");
        pattern.replace_all(&text, instead).into_owned()
    };
    let text = patterns.into_iter().fold(screen.to_owned(), clean);
    // The index may be ready already. The line of a wait is wiped by spaces.
    let lines = text.lines().filter(|line| !line.starts_with("Indexing: "));
    lines.map(str::trim_end).collect::<Vec<_>>().join("\n")
}

#[test]
fn ollama_makes_a_model_with_a_larger_context_where_the_user_says_yes() {
    let _port = OLLAMA_PORT.lock().unwrap_or_else(PoisonError::into_inner);
    for (answer, model, context) in [("y\n", "llama3:8b-16k", "16384"), ("\n", "llama3:8b", "4096")] {
        let script = Script {
            models: vec!["llama3:8b".to_owned()],
            ollama_context: Some(4_096),
            ..Script::new([Round::text("OK")])
        };
        let server = ModelServer::start_on(OLLAMA, script).expect("nothing else listens there");
        let (home, repository) = (Home::empty(), repository());
        let answers = [
            ("Number or name [ollama]: ", "\n"),
            ("part of a name [llama3:8b]: ", "\n"),
            ("needs more memory. [y/N] ", answer),
        ];
        let shown = typed(&home, repository.path(), &["init"], &answers, &[]).expect(0);
        let screen = screen(&shown, &home);
        let said = "llama3:8b has a context of 4096 tokens here. Create llama3:8b-16k from it, with 16384 tokens?";
        let used = format!("{model} is used with a context of {context} tokens.");
        assert!(screen.contains(said) && screen.contains(&used), "{screen}");
        let written = std::fs::read_to_string(home.path().join("config.toml")).expect("it was written");
        assert!(written.contains(&format!("model = \"{model}\"")), "{written}");
        let created: Vec<_> = server.ollama_requests();
        let created = created.iter().find(|request| request.path == "/api/create");
        let expected = json!({
            "model": "llama3:8b-16k", "from": "llama3:8b", "parameters": {"num_ctx": 16_384}, "stream": false,
        });
        assert_eq!(
            created.map(|request| &request.body),
            Some(&expected).filter(|_| answer == "y\n")
        );
    }
}

#[test]
fn a_model_of_the_larger_ones_name_is_used_and_not_overwritten() {
    let _port = OLLAMA_PORT.lock().unwrap_or_else(PoisonError::into_inner);
    let script = Script {
        models: vec!["llama3:8b".to_owned(), "llama3:8b-16k".to_owned()],
        ollama_context: Some(4_096),
        ..Script::new([Round::text("OK")])
    };
    let server = ModelServer::start_on(OLLAMA, script).expect("nothing else listens there");
    let (home, repository) = (Home::empty(), repository());
    let answers = [
        ("Number or name [ollama]: ", "\n"),
        ("part of a name [llama3:8b]: ", "\n"),
        ("Use it as it is? [y/N] ", "y\n"),
    ];
    let shown = typed(&home, repository.path(), &["init"], &answers, &[]).expect(0);
    let screen = screen(&shown, &home);
    let said = "llama3:8b has a context of 4096 tokens here. The server already has a model named llama3:8b-16k.";
    let used = "llama3:8b-16k is used with a context of 4096 tokens.";
    assert!(screen.contains(said) && screen.contains(used), "{screen}");
    let requests = server.ollama_requests();
    assert!(requests.iter().all(|request| request.path != "/api/create"));
}

#[test]
fn the_first_command_sets_up_ollama_and_goes_on() {
    let _port = OLLAMA_PORT.lock().unwrap_or_else(PoisonError::into_inner);
    let _server = server_on(OLLAMA, &["qwen3-coder", "llama3"], &["OK", ANSWER]);
    let (home, repository) = (Home::empty(), repository());
    let answers = [
        ("Number or name [ollama]: ", "\n"),
        ("part of a name [qwen3-coder]: ", "\n"),
    ];
    let shown = typed(&home, repository.path(), &["explain", "."], &answers, &[]).expect(0);
    let screen = screen(&shown, &home);
    assert!(
        screen.contains("Configuration file not found: ~/.tool/config.toml"),
        "{screen}"
    );
    assert!(screen.contains(ANSWER), "{screen}");
    insta::assert_snapshot!(without_differences(&questions(&screen)), @"
    Which vendor?
       1  ollama       Ollama: runs on port 11434, 2 models
       2  analyst      no model, no key, no network: a deterministic overview
       3  anthropic    Anthropic
       4  openai       OpenAI
       5  gemini       Google Gemini
       6  openrouter   OpenRouter
       7  lmstudio     LM Studio
       8  llamacpp     llama.cpp
       9  vllm         vLLM
      10  azure        Azure OpenAI
      11  bedrock      Amazon Bedrock
      12  vertex       Google Vertex AI
      13  mistral      Mistral
      14  groq         Groq
      15  deepseek     DeepSeek
      16  xai          xAI
      17  together     Together AI
      18  fireworks    Fireworks AI
      19  huggingface  Hugging Face Inference Providers
      20  cerebras     Cerebras
      21  moonshot     Moonshot AI (Kimi)
      22  zai          Z.AI
      23  qwen         Alibaba Cloud Model Studio (Qwen)
      24  litellm      LiteLLM proxy
    Number or name [FIRST]:
    Which model?
       1  qwen3-coder
       2  llama3
    Number, name or part of a name [qwen3-coder]:
    qwen3-coder answers.
    Wrote ~/.tool/config.toml: the vendor `ollama` is enabled, at http://127.0.0.1:PORT/v1.
    reads README.md  (key file)
    reads pyproject.toml  (key file)
    reads app.py  (entry point by its name; central to the entry points, by imports; key file)
    Only 3 files were selected: there are no others of use in the repository
    It counts crates (app.py:1).

    ---

    0 citations hold, 1 not checked.
    N tokens, session ID
    report session-reports/session_ID.md
    ");
    assert_eq!(keystrokes(&["tool explain ."], &answers, KEY), 17);
}

#[test]
fn the_first_command_sets_up_the_analyst_and_goes_on() {
    let (home, repository) = (Home::empty(), repository());
    let answers = [("Number or name [", "analyst\n")];
    let shown = typed(&home, repository.path(), &["explain", "."], &answers, &[]).expect(0);
    let screen = screen(&shown, &home);
    let from = screen.find("Number or name [").expect("it was asked");
    insta::assert_snapshot!(without_differences(&screen[from..]), @r#"
    Number or name [FIRST]: analyst
    Wrote ~/.tool/config.toml: the provider `local` is enabled, at builtin:analyst.
    reads README.md  (key file)
    reads pyproject.toml  (key file)
    reads app.py  (entry point by its name; central to the entry points, by imports; key file)
    Only 3 files were selected: there are no others of use in the repository
    skill list_files path= recursive=true limit=2000
    skill analyze_dependencies
    skill read_file path=README.md limit=600
    skill read_file path=pyproject.toml limit=600
    skill read_file path=app.py limit=600
    skill search_code pattern=^(async\s+)?(class|def)\s+(?P<name>[A-Za-z]\w*) globs=["/app.py"] limit=1000 case=sensitive
    skill search_code pattern=^\s*from\s+\S+\s+import\s+\w path= globs=["*.py","*.pyi","*.ipynb"] limit=1000 case=sensitive
    skill search_code pattern=(?i)code generated .*do not edit|@generated\b|auto-?generate… path= globs=["*.py","*.pyi","*.ipynb"] limit=1000 case=sensitive
    skill search_code pattern=^\s*@\w+(\.\w+)?\.(route|get|post|put|patch|delete|websocket… path= globs=["*.py","*.pyi","*.ipynb"] limit=40 case=sensitive
    skill search_code pattern=^class \w+\(.*(models\.Model|\bModel\b|\bBase\b|SQLModel|Dec… path= globs=["*.py","*.pyi","*.ipynb"] limit=40 case=sensitive
    skill search_code pattern=^\s*@(shared_task|\w+\.task)\b path= globs=["*.py","*.pyi","*.ipynb"] limit=40 case=sensitive
    skill search_code pattern=^\s*@(dataclasses\.)?dataclass\b|^class \w+\(.*BaseModel path= globs=["*.py","*.pyi","*.ipynb"] limit=40 case=sensitive
    skill search_code pattern=os\.environ|os\.getenv|BaseSettings|environ\.Env\( path= globs=["*.py","*.pyi","*.ipynb"] limit=40 case=sensitive
    skill search_code pattern=@(abc\.)?abstractmethod path= globs=["*.py","*.pyi","*.ipynb"] limit=40 case=sensitive
    skill search_code pattern=^\s*async def  path= globs=["*.py","*.pyi","*.ipynb"] limit=40 case=sensitive
    skill find_references symbol=count limit=1
    # crates

    > Written by the embedded analyst from measurements of this repository. No language model was used.

    ## What it is

    Counts crates. (README.md:3)

    Kind: not recognised

    The repository holds 3 files, 0 directories, 121 B, and its sources are mainly Python.

    ## Build, run and test

    - install: `python -m pip install .` (`[project]`, pyproject.toml:1)

    ## Entry points

    - `app.py` (app.py:1)

    ## Module map of `.`

    - `app.py`

    ## Central symbols

    - `count` — no use found (app.py:1)

    `tool explain . --full` adds the public interface, imports, history, tests, dependencies and sizes.

    session ID
    report session-reports/session_ID.md
    "#);
    assert_eq!(keystrokes(&["tool explain ."], &answers, KEY), 23);
}

/// A vendor in the network is played at an address that the file names beforehand; everything else is asked.
fn hosted(vendor: &str, url: impl Fn(&ModelServer) -> String) -> (String, usize) {
    let server = server_on(ANY, &["newest", "older"], &["OK", ANSWER]);
    let home = Home::configured(&format!("[vendors.{vendor}]\nurl = \"{}\"\n", url(&server)));
    let (repository, name, key) = (repository(), format!("{vendor}\n"), format!("{KEY}\n"));
    let answers = [
        ("Number or name [", name.as_str()),
        ("readable by you alone): ", key.as_str()),
        ("part of a name [newest]: ", "\n"),
    ];
    let shown = typed(&home, repository.path(), &["init"], &answers, &[]).expect(0);
    let done = typed(&home, repository.path(), &["explain", "."], &[], &[]).expect(0);
    assert!(done.stdout.contains(ANSWER), "{done:?}");
    assert!(
        !shown.stdout.contains(KEY) && !shown.stdout.contains(&KEY[..8]),
        "{}",
        shown.stdout
    );
    let count = keystrokes(&["tool init", "tool explain ."], &answers, KEY);
    let place = home.path().join("config.toml");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&place).expect("it is there").permissions());
    assert_eq!(mode & 0o777, 0o600);
    assert!(std::fs::read_to_string(place).expect("it is there").contains(KEY));
    let (asked, answered) = (screen(&shown, &home), screen(&done, &home));
    let from = asked.find("Number or name [").expect("it was asked");
    let both = format!("{}\n$ tool explain .\n{answered}", &asked[from..]);
    (without_differences(&both), count)
}

#[test]
fn init_sets_up_anthropic_with_a_key_that_is_not_shown() {
    let (screen, count) = hosted("anthropic", ModelServer::root);
    insta::assert_snapshot!(screen, @r"
    Number or name [FIRST]: anthropic
    API key (not shown; kept in ~/.tool/config.toml, readable by you alone):
    Which model?
       1  newest
       2  older
    Number, name or part of a name [FIRST]:
    newest answers.
    Wrote ~/.tool/config.toml: the vendor `anthropic` is enabled, at http://127.0.0.1:PORT.
    Next: tool explain .

    $ tool explain .
    reads README.md  (key file)
    reads pyproject.toml  (key file)
    reads app.py  (entry point by its name; central to the entry points, by imports; key file)
    Only 3 files were selected: there are no others of use in the repository
    It counts crates (app.py:1).

    ---

    0 citations hold, 1 not checked.
    N tokens, session ID
    report session-reports/session_ID.md
    ");
    assert_eq!(count, 37);
}

#[test]
fn init_sets_up_openai_with_a_key_that_is_not_shown() {
    let (screen, count) = hosted("openai", ModelServer::url);
    insta::assert_snapshot!(screen, @r"
    Number or name [FIRST]: openai
    API key (not shown; kept in ~/.tool/config.toml, readable by you alone):
    Which model?
       1  newest
       2  older
    Number, name or part of a name [FIRST]:
    newest answers.
    Wrote ~/.tool/config.toml: the vendor `openai` is enabled, at http://127.0.0.1:PORT/v1.
    Next: tool explain .

    $ tool explain .
    reads README.md  (key file)
    reads pyproject.toml  (key file)
    reads app.py  (entry point by its name; central to the entry points, by imports; key file)
    Only 3 files were selected: there are no others of use in the repository
    It counts crates (app.py:1).

    ---

    0 citations hold, 1 not checked.
    N tokens, session ID
    report session-reports/session_ID.md
    ");
    assert_eq!(count, 34);
}

#[test]
fn a_key_in_the_environment_is_found_and_not_asked_for() {
    let server = server_on(ANY, &["newest"], &["OK"]);
    let home = Home::configured(&format!("[vendors.anthropic]\nurl = \"{}\"\n", server.root()));
    let repository = repository();
    let answers = [
        ("Number or name [anthropic]: ", "\n"),
        ("part of a name [newest]: ", "\n"),
    ];
    let shown = typed(
        &home,
        repository.path(),
        &["init"],
        &answers,
        &[("ANTHROPIC_API_KEY", KEY)],
    )
    .expect(0);
    assert!(
        shown.stdout.contains("Anthropic: key in ANTHROPIC_API_KEY"),
        "{}",
        shown.stdout
    );
    let text = std::fs::read_to_string(home.path().join("config.toml")).expect("it is there");
    assert!(
        !text.contains(KEY) && !shown.stdout.contains(KEY),
        "the key stays where it was"
    );
}

#[test]
fn ctrl_c_at_the_key_writes_nothing_and_leaves_the_terminal_as_it_was() {
    let (home, repository) = (Home::empty(), repository());
    let answers = [
        ("Number or name [", "anthropic\n"),
        ("readable by you alone): ", "sk-ha\u{3}"),
    ];
    let shown = typed(&home, repository.path(), &["init"], &answers, &[]);
    assert_eq!(shown.code, 130, "{}", shown.stdout);
    assert!(!shown.stdout.contains("sk-ha"), "{}", shown.stdout);
    assert!(!home.path().join("config.toml").exists());
}

#[test]
fn settings_with_which_the_model_does_not_answer_are_not_written() {
    let refusal = json!({"error": {"type": "authentication_error", "message": "invalid x-api-key"}});
    let script = Script::new([Round::status(401, refusal)]);
    let server = ModelServer::start(script).expect("loopback has a free port");
    let home = Home::configured(&format!("[vendors.anthropic]\nurl = \"{}\"\n", server.root()));
    let repository = repository();
    let key = format!("{KEY}\n");
    let answers = [
        ("Number or name [", "anthropic\n"),
        ("readable by you alone): ", key.as_str()),
        ("part of a name [scripted]: ", "\n"),
        ("anyway? [y/N] ", "n\n"),
    ];
    let shown = typed(&home, repository.path(), &["init"], &answers, &[]).expect(2);
    assert!(
        shown.stdout.contains("Authentication failed: Invalid API key"),
        "{}",
        shown.stdout
    );
    assert!(!shown.stdout.contains(KEY), "{}", shown.stdout);
    let text = std::fs::read_to_string(home.path().join("config.toml")).expect("it is there");
    assert!(!text.contains("api_key"), "{text}");
}

#[test]
fn without_a_terminal_a_missing_configuration_is_an_error_that_names_the_ways_out() {
    let home = Home::empty();
    let finished = home.run(repository().path(), &["explain", "."]).expect(2);
    let told = finished.stderr.replace(&home.path().display().to_string(), "~/.tool");
    insta::assert_snapshot!(told, @"
    [error] Configuration file not found: ~/.tool/config.toml
    hint: run `tool init`, which writes ~/.tool/config.toml; `tool init --offline` needs no model
    ");
}

//! Cost of a session: shown wherever its tokens are, and bounded before each request.

use serde_json::{Value, json};
use tempfile::TempDir;
use tool_model_server::{ModelServer, Round, Script, ScriptedCall, ScriptedUsage, ServerStep};

use crate::providers::{repository, serve};
use crate::support::{Home, holds};

/// $3 a million tokens of input, $0.30 from the cache, $15 of output.
const PRICES: &str = "\n[prices.scripted]\ninput = 3\noutput = 15\ncache_read = 0.3\n";

/// Two rounds: 10,000 tokens of input and 100 of output, then 12,000 of which 10,000 are cached, and 200.
fn rounds() -> [Round; 2] {
    let usage = |input, output, cached| ServerStep::Usage(ScriptedUsage { input, output, cached });
    let call = ScriptedCall::new("read_file", json!({"path": "app.py"}));
    [
        Round::new([ServerStep::ToolCalls(vec![call]), usage(10_000, 100, 0)]),
        Round::new([
            ServerStep::Text("It counts crates (app.py:1).".into()),
            usage(12_000, 200, 10_000),
        ]),
    ]
}

/// 12,000 at $3, 10,000 at $0.30 and 300 at $15.
const COST: f64 = 0.0435;

fn home(server: &ModelServer, further: &str) -> Home {
    let url = server.url();
    let provider = format!("[providers.local]\nenabled = true\nmodel = \"scripted\"\nurl = \"{url}\"\n");
    Home::configured(&format!("{provider}{further}"))
}

fn report(repository: &TempDir) -> String {
    std::fs::read_to_string(repository.path().join("session-reports/session_latest.md")).expect("a report")
}

#[test]
fn cost_and_cached_tokens_are_shown_wherever_tokens_are() {
    let (server, repository) = (serve(rounds()), repository());
    let home = home(&server, PRICES);
    let finished = home.run(repository.path(), &["explain", "."]).expect(0);
    let line = "tokens 22000 in (10000 from the cache), 300 out, $0.0435";
    holds(&finished.stderr, &["$0.0435"]);
    holds(
        &report(&repository),
        &["| Tokens | 22000 in (10000 from the cache), 300 out, $0.0435 |"],
    );
    let shown = home.run(repository.path(), &["results", "latest"]).expect(0);
    holds(&shown.stderr, &[line]);
    let result = home.run(repository.path(), &["results", "latest", "--json"]).expect(0);
    let result: Value = serde_json::from_str(&result.stdout).expect("it is JSON");
    let usage =
        json!({"input_tokens": 22000, "cached_tokens": 10000, "output_tokens": 300, "estimated": false, "cost": COST});
    assert_eq!(result["usage"], usage);
    holds(
        &home.run(repository.path(), &["history"]).expect(0).stdout,
        &["$0.0435"],
    );
    let history = home.run(repository.path(), &["history", "--json"]).expect(0);
    let history: Value = serde_json::from_str(&history.stdout).expect("it is JSON");
    assert_eq!(history["sessions"][0]["cost"], COST);
    let kept = std::fs::read(repository.path().join("session-reports/session_history.json")).expect("a history");
    let kept: Value = serde_json::from_slice(&kept).expect("it is JSON");
    assert_eq!(kept["sessions"][0]["cost"], COST);
}

#[test]
fn events_carry_the_cost_so_far() {
    let (server, repository) = (serve(rounds()), repository());
    let home = home(&server, PRICES);
    let finished = home.run(repository.path(), &["explain", ".", "--json"]).expect(0);
    let events = finished
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("an event is JSON"));
    let costs: Vec<Value> = events
        .filter(|event| event["type"] == "usage")
        .map(|event| event["cost"].clone())
        .collect();
    assert_eq!(costs, [json!(0.0315), json!(COST)]);
}

#[test]
fn without_a_price_a_bound_of_the_cost_is_a_configuration_error() {
    let (server, repository) = (serve(rounds()), repository());
    let home = home(&server, "");
    let finished = home
        .run(repository.path(), &["explain", ".", "--max-cost", "0.50"])
        .expect(2);
    let from = finished.stderr.find("[error]").expect("an error");
    insta::assert_snapshot!(&finished.stderr[from..], @r#"
    [error] The cost cannot be bounded: the price of `scripted` is not known
    hint: set `input` and `output` below [prices."scripted"] of config.toml, in US dollars for a million tokens
    "#);
    assert!(server.requests().iter().all(|request| request.method == "GET"));
}

#[test]
fn no_request_is_sent_that_could_exceed_the_bound() {
    let (server, repository) = (serve(rounds()), repository());
    let home = home(&server, PRICES);
    let finished = home
        .run(repository.path(), &["explain", ".", "--max-cost", "0.001"])
        .expect(1);
    let sums = regex::Regex::new(r"could cost \$[0-9.]+|--max-cost [0-9.]+").expect("a constant");
    let from = finished.stderr.find("[error]").expect("an error");
    insta::assert_snapshot!(sums.replace_all(&finished.stderr[from..], "[SUM]"), @"
    [error] explain is incomplete: its bound of $0.001000 (--max-cost) is reached: $0 are spent; the next request [SUM]
    hint: allow a higher cost: `[SUM]`, or ask for less
    ");
    assert!(server.requests().iter().all(|request| request.method == "GET"));
}

#[test]
fn the_bound_limits_the_output_of_each_request() {
    let (server, repository) = (serve(rounds()), repository());
    let home = home(&server, PRICES);
    home.run(repository.path(), &["explain", ".", "--max-cost", "$0.25"])
        .expect(0);
    let bounds: Vec<u64> = server
        .requests()
        .iter()
        .filter(|request| request.method == "POST")
        .map(|request| request.body["max_tokens"].as_u64().expect("it is bounded"))
        .collect();
    let [first, second] = bounds[..] else {
        panic!("{bounds:?}")
    };
    // $0.0315 are spent after the first, and then its 10,000 tokens of input are known to be so many.
    assert!((64..16_384).contains(&first) && second > first, "{bounds:?}");
    assert!(second < (250_000 - 31_500) / 15, "{bounds:?}");
}

#[test]
fn a_router_lists_the_price_that_the_bound_needs() {
    let pricing = json!({"prompt": "0.000003", "completion": "0.000015", "input_cache_read": "0.0000003"});
    let list = json!({"data": [{"id": "other"}, {"id": "scripted", "pricing": pricing}]});
    let script = Script {
        get: [("/v1/models".to_owned(), list)].into(),
        ..Script::new(rounds())
    };
    let server = ModelServer::start(script).expect("loopback has a free port");
    let (home, repository) = (home(&server, ""), repository());
    let finished = home
        .run(repository.path(), &["explain", ".", "--max-cost", "1"])
        .expect(0);
    holds(&finished.stderr, &["$0.0435"]);
}

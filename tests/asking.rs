//! Targets of `tool explain` and `tool ask`: nothing, several targets, lines, names of definitions, and questions.

use serde_json::json;
use tool_model_server::Round;

use crate::providers::scripted;
use crate::support::{Home, folder, holds};

const SHOP: &[(&str, &str)] = &[
    ("README.md", "# shop\n\nCounts carts.\n"),
    ("shop/__init__.py", ""),
    (
        "shop/cart.py",
        "from .prices import total\n\n\nclass Cart:\n    def add(self, item):\n        self.items.append(item)\n\n    def sum(self):\n        return total(self)\n",
    ),
    ("shop/prices.py", "def total(cart):\n    return 0\n"),
    (
        "shop/cli.py",
        "from .cart import Cart\n\n\ndef main():\n    print(Cart().sum())\n",
    ),
];

/// The user's message of the only request after a command, and what the command printed on standard error.
fn asked(arguments: &[&str]) -> (String, String) {
    let (server, home) = scripted([Round::text("It is explained.")]);
    let repository = folder(SHOP);
    let finished = home.run(repository.path(), arguments).expect(0);
    let message = server.requests()[0].body["messages"][1]["content"].clone();
    let message = message.as_str().expect("a text").to_owned();
    let head = message.split_once("# Request\n\n").expect("a request").1;
    (head.split_once("\n\n").expect("a packet").0.to_owned(), finished.stderr)
}

#[test]
fn a_question_chooses_the_files_and_is_the_task() {
    let question = "how is the sum of a cart computed?";
    for arguments in [
        &["explain", question][..],
        &["ask", question],
        &["ask", "how", "is", "the", "sum", "of", "a", "cart", "computed?"],
    ] {
        let (head, stderr) = asked(arguments);
        assert_eq!(head, format!("Operation: explain\nTask:\n{question}"));
        holds(&stderr, &["reads shop/cart.py"]);
    }
    let (head, _) = asked(&["ask", "cart"]);
    assert_eq!(head, "Operation: explain\nTask:\ncart");
}

#[test]
fn words_without_quotation_marks_are_one_question() {
    let (head, _) = asked(&["explain", "where", "is", "the", "total"]);
    assert_eq!(head, "Operation: explain\nTask:\nwhere is the total");
}

#[test]
fn lines_names_and_several_paths_are_targets() {
    let (head, stderr) = asked(&["explain", "shop/cart.py:4-9"]);
    assert_eq!(
        head,
        "Operation: explain\nTarget: the file `shop/cart.py`\nLines: 4 to 9"
    );
    holds(&stderr, &["reads shop/cart.py  (the target"]);

    let (head, stderr) = asked(&["explain", "Cart.sum"]);
    assert_eq!(
        head,
        "Operation: explain\nTarget: the file `shop/cart.py`\nSymbol: `Cart.sum`, defined at `shop/cart.py:8`"
    );
    holds(
        &stderr,
        &[
            "`Cart.sum` is defined at `shop/cart.py:8`",
            "reads shop/cart.py  (defines `Cart.sum`",
        ],
    );

    let (head, stderr) = asked(&["explain", "shop/prices.py", "shop/cli.py"]);
    assert_eq!(
        head,
        "Operation: explain\nTarget: `shop/prices.py`\nTarget: `shop/cli.py`"
    );
    holds(
        &stderr,
        &["reads shop/prices.py  (a target", "reads shop/cli.py  (a target"],
    );
}

#[test]
fn nothing_is_the_whole_repository() {
    let (home, repository) = (Home::offline(), folder(SHOP));
    let finished = home.run(repository.path(), &["explain"]).expect(0);
    holds(&finished.stdout, &["Counts carts."]);
}

#[test]
fn a_mistyped_name_or_path_leads_to_the_nearest_and_makes_no_session() {
    let (home, repository) = (Home::offline(), folder(SHOP));
    let said = |target: &str| home.run(repository.path(), &["explain", target]).expect(2).stderr;
    assert_eq!(
        said("Carts"),
        "[error] File not found: Carts\nhint: did you mean `Cart` (shop/cart.py:4)?\n"
    );
    assert_eq!(
        said("shop/cat.py"),
        "[error] File not found: shop/cat.py\nhint: did you mean `shop/cart.py`?\n"
    );
    holds(&said("zzzzzzzzzz"), &["File not found: zzzzzzzzzz", "`tool ask"]);
    assert!(!repository.path().join("session-reports").exists());
}

#[test]
fn the_analyst_answers_no_question() {
    let (home, repository) = (Home::offline(), folder(SHOP));
    for arguments in [
        &["ask", "how does it work"][..],
        &["explain", "how does it work"],
        &["explain", "shop/cart.py", "shop/cli.py"],
    ] {
        let stderr = home.run(repository.path(), arguments).expect(2).stderr;
        holds(
            &stderr,
            &[
                "The embedded analyst uses no language model, and",
                "hint: enable a provider: `tool init",
            ],
        );
    }
    let address = home.serve();
    let body = json!({"operation": "explain", "task": "how does it work", "repo_path": repository.path()});
    let start = crate::conformance::http::post(&address, "/execute", &body)
        .expect(200)
        .json();
    let id = start["session_id"].as_str().expect("an identifier");
    let events = crate::conformance::http::get(&address, &format!("/stream?session_id={id}"))
        .expect(200)
        .events();
    assert_eq!(events.last().expect("events")["code"], "config-needs-model");
}

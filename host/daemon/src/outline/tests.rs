//! Each language as the product reads it, files that are made to hurt, and a component that lies.

use std::path::PathBuf;

use super::*;
use crate::limits;
use tool_context::symbols::ParsedImport;
use tool_skill::embedded::{Packed, base_of, pack_component};
use tool_skill::outline::OutlineBounds;
use tool_skill::{EmbeddedOutliner, precompile_outliner};

/// The folder that `scripts/build` fills.
pub(crate) fn target() -> PathBuf {
    let own = std::env::current_exe().expect("a test has a binary");
    let target = own.ancestors().nth(3).expect("it lies in the target folder");
    target.to_owned()
}

/// The components that the product embeds.
fn components() -> &'static [EmbeddedOutliner] {
    let component = |name| {
        let read = |name| -> &'static [u8] {
            let path = target().join("skills").join(format!("{name}.compiled"));
            std::fs::read(path).expect("it is built: run scripts/build").leak()
        };
        let base = base_of(name).map(read).unwrap_or_default();
        let bytes = read(name);
        EmbeddedOutliner {
            name,
            compiled: Packed { bytes, base },
        }
    };
    let all = [
        "outline_c",
        "outline_csharp",
        "outline_dynamic",
        "outline_kotlin",
        "outline_native",
        "outline_python",
        "outline_script",
        "outline_shell",
    ]
    .map(component);
    Box::leak(Box::new(all))
}

fn bounded(embedded: &'static [EmbeddedOutliner], bounds: OutlineBounds) -> Arc<SandboxedParser> {
    Arc::new(SandboxedParser(Outliners::with_bounds(embedded, bounds)))
}

/// The parser of the product.
pub(crate) fn embedded() -> Arc<SandboxedParser> {
    bounded(components(), OutlineBounds::default())
}

/// Formats the outline of a file, one line for each entry.
fn told(path: &str, text: &str) -> String {
    let outline = embedded().outline(path, text).expect("it can be read");
    let mut told = String::new();
    for (name, named) in outline.definitions(text) {
        let NamedSymbol {
            line, end_line, depth, ..
        } = named;
        told += &format!(
            "{line}-{end_line} {}{:?} {name}\n",
            "  ".repeat(*depth as usize),
            named.form
        );
    }
    outline.each_import(text, |import| {
        told += &match import {
            ParsedImport::Python { level, module, name } => {
                format!("import {level} {module} {}\n", name.unwrap_or("-"))
            }
            other => format!("import {other:?}\n"),
        };
    });
    told
}

#[test]
fn python_is_read() {
    let text = r#"import os.path, numpy as np
from ..a.b import (c as d,
                   e)  # and more
from . import sibling
from x import *

LIMIT: int = 3
a, b = 1, 2
class Store(Base, metaclass=Meta):
    """class Not: pass"""
    size = 1
    @decorate(arg)
    async def get(self, key: Key = default) -> Row:
        local = compute(key)
        def inner(): return local
        return self.inner.fetch(local, flag=GLOBAL)
type Alias = dict
"#;
    insta::assert_snapshot!(told("a.py", text), @r#"
    7-7 Value LIMIT
    9-16 Type Store
    11-11   Value size
    13-16   Method get
    15-15     Function inner
    17-17 Type Alias
    import 0 os.path -
    import 0 numpy -
    import 2 a.b c
    import 2 a.b e
    import 1  sibling
    import 0 x -
    "#);
}

#[test]
fn javascript_is_read() {
    let text = r#"import { one as uno } from "./one.js";
export * from './all';
const lazy = require("./lazy"), other = await import(`./no`);
export default class View extends Base {
    #secret = 1;
    render(props) { return <Panel size={props.size} on={() => this.draw(uno)} />; }
}
module.exports.start = function (options = DEFAULTS) { const inner = 1; helper(inner); };
Old.prototype.stop = () => {};
const table = { create(context) {}, check: (node) => lazy(node), plain: 1 };
function* walk({ left, right: other }) { for (const item of left) yield item.value; }
"#;
    insta::assert_snapshot!(told("a.jsx", text), @r#"
    4-7 Type View
    5-5   Value #secret
    6-6   Method render
    8-8 Function start
    9-9 Function stop
    10-10 Value table
    10-10 Function create
    10-10 Function check
    11-11 Function walk
    import Path("./one.js")
    import Path("./all")
    import Path("./lazy")
    "#);
}

#[test]
fn code_of_notebooks_and_modules_of_lua_are_read() {
    let text = "{\n \"cells\": [\n  {\n   \"cell_type\": \"code\",\n   \"source\": [\n    \"import numpy as np\\n\",\n    \"\\n\",\n    \"class Row:\\n\",\n    \"    def get(self):\\n\",\n    \"        return \\\"x\\\"\\n\",\n    \"\\n\",\n    \"def show():\\n\",\n    \"    pass\"\n   ]\n  },\n  {\n   \"cell_type\": \"code\",\n   \"source\": [\n    \"from lib.store import Store\\n\",\n    \"total = 1\"\n   ]\n  }\n ]\n}\n";
    insta::assert_snapshot!(told("a.ipynb", text), @r#"
    8-10 Type Row
    9-10   Method get
    12-13 Function show
    20-20 Value total
    import 0 numpy -
    import 0 lib.store Store
    "#);
    assert!(told("a.lua", "local text = require(\"lib.text\")\n").contains("import Path(\"lib.text\")"));
}

#[test]
fn what_a_module_exports_is_defined_by_its_own_name() {
    let text = r#"module.exports = class Cart extends Base {
    add(item) { this.push(item); }
};
exports = module.exports = function create(options) { const inner = 1; };
module.exports = function* walk() {};
"#;
    insta::assert_snapshot!(told("a.js", text), @r#"
    1-3 Type Cart
    2-2   Method add
    4-4 Function create
    5-5 Function walk
    "#);
}

#[test]
fn typescript_is_read() {
    let text = r#"import type { Shape } from "./shape";
import fs = require("fs");
export interface Area<T> extends Shape { size(unit: Unit): number; name: string }
export abstract class Base<T> implements Area<T> {
    private readonly cache: Map<string, T> = new Map();
    abstract size(unit: Unit): number;
    public static make<U>(this: U, part: Part): U { return <U>build(part); }
}
type Name = string | Label;
enum Color { Red, Green }
namespace Inner { export const deep = 1; }
declare function later(x: number): void;
"#;
    insta::assert_snapshot!(told("a.ts", text), @r#"
    3-3 Type Area
    3-3   Method size
    4-8 Type Base
    5-5   Value cache
    6-6   Method size
    7-7   Method make
    9-9 Type Name
    10-10 Type Color
    11-11 Module Inner
    11-11   Value deep
    12-12 Function later
    import Path("./shape")
    import Path("fs")
    "#);
    let text = "export const App = ({ title }: Props) => <Layout title={title}>{format(title)}</Layout>;\n";
    insta::assert_snapshot!(told("a.tsx", text), @r#"
    1-1 Value App
    "#);
}

#[test]
fn rust_is_read() {
    let text = r#"use crate::{a::B, c::{self, d as e}, f::*};
pub use super::g;
mod child;
mod inner { pub fn deep() {} }
#[derive(Debug)]
pub(crate) struct Store<T> { rows: Vec<T> }
enum State { Idle, Busy(Job) }
impl<T: Clone> Store<T> {
    const MAX: usize = 3;
    pub async fn get(&self, key: &Key) -> Option<Row> {
        let found = self.rows.iter().find(|row| row.matches(key))?;
        match found { Kind::Plain(inner) => build(inner), LIMIT => panic!("{}", OTHER) }
    }
}
macro_rules! make { () => {} }
static TABLE: &[u8] = b"";
trait Read { type Item; fn read(&mut self) -> Self::Item; }
"#;
    insta::assert_snapshot!(told("a.rs", text), @r#"
    4-4 Module inner
    4-4   Function deep
    6-6 Type Store
    7-7 Type State
    7-7   Value Idle
    7-7   Value Busy
    9-9   Value MAX
    10-13   Method get
    15-15 Function make
    16-16 Value TABLE
    17-17 Type Read
    17-17   Method read
    import RustUse("crate::a::B")
    import RustUse("crate::c")
    import RustUse("crate::c::d")
    import RustUse("crate::f")
    import RustUse("super::g")
    import RustModule("child")
    "#);
}

#[test]
fn go_is_read() {
    let text = r#"package store

import (
	"fmt"
	js "encoding/json"
)

const first, second = 1, 2
var Default = New()

type Store struct {
	rows map[string]Row
	Base
}
type Reader interface{ Read(p []byte) error }

func (s *Store) Get(key Key) (*Row, error) {
	row, ok := s.rows[key.Name]
	for i, other := range rows { use(i, other) }
	return fmt.Errorf("%v", Missing), js.Do(row, ok)
}
func New() *Store { return &Store{rows: nil} }
"#;
    insta::assert_snapshot!(told("a.go", text), @r#"
    8-8 Value first
    8-8 Value second
    9-9 Value Default
    11-14 Type Store
    15-15 Type Reader
    15-15   Method Read
    17-21 Method Get
    22-22 Function New
    import Go("fmt")
    import Go("encoding/json")
    "#);
}

#[test]
fn java_is_read() {
    let text = r#"package a.b;
import java.util.List;
import static a.C.of;
import d.e.*;
@Service(name = NAME)
public class Store<T extends Row> extends Base implements Reader {
    private static final int MAX = Limits.MAX_ROWS;
    public Store(Config config) { super(config); }
    List<T> find(Key key) throws Missing {
        Row local = this.index.lookup(key);
        return local.stream().map(x -> Helper.turn(x)).toList();
    }
    enum State { IDLE, BUSY }
    record Pair(Left left) {}
    interface Part { void run(); }
}
"#;
    insta::assert_snapshot!(told("A.java", text), @r#"
    6-16 Type Store
    7-7   Value MAX
    9-12   Method find
    13-13   Type State
    13-13     Value IDLE
    13-13     Value BUSY
    14-14   Type Pair
    15-15   Type Part
    15-15     Method run
    import Java("java.util.List")
    import Java("a.C.of")
    import Java("d.e")
    "#);
}

#[test]
fn scripts_of_components_are_read() {
    let vue = "<template>\n  <Cart :total=\"total\" />\n</template>\n<script setup lang=\"ts\">\nimport Cart from './Cart.vue'\n\
               const total: number = 1\nconst later = () => import('./Later.vue')\n</script>\n<style>\np { a: b }\n</style>\n";
    insta::assert_snapshot!(told("src/App.vue", vue), @r#"
    6-6 Value total
    7-7 Value later
    import Path("./Cart.vue")
    import Path("./Later.vue")
    "#);
    let astro = "---\nimport Card from '../Card.astro';\nexport function total() {}\n---\n<Card />\n";
    insta::assert_snapshot!(told("src/pages/index.astro", astro), @r#"
    3-3 Function total
    import Path("../Card.astro")
    "#);
}

#[test]
fn other_languages_and_dialects_are_left_to_text() {
    let outliners = embedded();
    for path in ["a.pyx", "a.pug", "a.swift", "Makefile"] {
        assert!(
            !outliners.reads(path) && outliners.outline(path, "def a(): pass\n").is_none(),
            "{path}"
        );
    }
    assert!(outliners.reads("a.pyi") && outliners.reads("b/a.mts"));
    assert!(outliners.outline("py", "def a(): pass\n").is_none());
    assert!(!SandboxedParser(Outliners::new(&[])).reads("a.py"));
}

#[test]
fn a_file_with_mistakes_tells_what_can_be_read() {
    let text = "def a():\n    return 1\n\ndef b(:\n    pass\n\n)]}\ndef c():\n    return 3\n";
    let told = told("a.py", text);
    assert!(told.contains("Function a\n") && told.contains("Function c\n"), "{told}");
    for path in ["a.py", "a.js", "a.ts", "a.tsx", "a.rs", "a.go", "A.java"] {
        for text in [
            "",
            "\u{0}\u{fffd}\u{202e}",
            "\"",
            "/*",
            "((((((((((",
            "é = 1; class Größe {}",
        ] {
            assert!(embedded().outline(path, text).is_some(), "{path}: {text:?}");
        }
    }
}

#[test]
fn deep_nesting_and_long_lines_cost_a_bounded_time() {
    let outliners = embedded();
    let since = std::time::Instant::now();
    let depth = 100_000;
    for (path, open, close) in [
        ("a.py", "(", ")"),
        ("a.js", "[", "]"),
        ("a.ts", "f(", ")"),
        ("a.rs", "{", "}"),
        ("a.go", "func(){", "}"),
        ("A.java", "class A {", "}"),
    ] {
        for text in [open.repeat(depth) + &close.repeat(depth), open.repeat(depth)] {
            // With or without an answer: what counts is that it comes, and that the next one does.
            let _ = outliners.outline(path, &text);
        }
        let line = "a = 1; ".repeat(150_000);
        let _ = outliners.outline(path, &line);
        assert!(outliners.outline(path, "\n").is_some(), "{path} is read after that");
    }
    // Eighteen files, each within its bound, on a machine that has other things to do.
    assert!(since.elapsed() < 18 * 2 * OutlineBounds::default().wall);
}

#[test]
fn time_and_memory_of_a_file_are_bounded_and_the_next_one_is_read() {
    let text = "def f(a, b): return [a + b, {a: b}]\n".repeat(10_000);
    let bounded = |bounds| bounded(components(), bounds);
    let short = bounded(OutlineBounds {
        wall: Duration::from_millis(1),
        ..OutlineBounds::default()
    });
    assert!(short.outline("a.py", &text).is_none());
    let small = bounded(OutlineBounds {
        memory_bytes: 4 << 20,
        ..OutlineBounds::default()
    });
    assert!(small.outline("a.py", &text).is_none());
    assert!(small.outline("a.py", "def f(): pass\n").is_some());
    let terse = bounded(OutlineBounds {
        answer_bytes: 64 << 10,
        ..OutlineBounds::default()
    });
    assert!(terse.outline("a.py", &text).is_none());
    assert!(embedded().outline("a.py", &text).is_some());
}

#[test]
fn nested_lists_of_imports_are_not_written_out_without_end() {
    let nested = |statements: usize, depth: usize| {
        let names: Vec<String> = (0..400).map(|number| format!("b{number}")).collect();
        let open = format!("{}::{{", "a".repeat(500)).repeat(depth);
        format!("use {open}{}{};\n", names.join(", "), "}".repeat(depth)).repeat(statements)
    };
    let many = nested(25, 35);
    assert!(many.len() < limits::RANKED_FILE_BYTES_MAX as usize);
    assert_eq!(embedded().outline("a.rs", &many), None);
    assert!(embedded().outline("a.rs", &nested(1, 3)).is_some());
}

#[test]
fn the_bounds_of_readings_are_those_of_limits() {
    let bounds = OutlineBounds::default();
    assert_eq!(bounds.wall, Duration::from_millis(limits::OUTLINE_WALL_MS_MAX));
    assert_eq!(bounds.memory_bytes, limits::OUTLINE_MEMORY_BYTES_MAX);
    assert_eq!(bounds.answer_bytes, limits::OUTLINE_ANSWER_BYTES_MAX);
}

// ---- a component that lies ----

/// A guest of the tests, as `scripts/build` made it.
fn liar() -> Arc<SandboxedParser> {
    let path = target().join("wasm32-wasip2/skill/liar.wasm");
    let wasm = std::fs::read(path).expect("it is built: run scripts/build");
    let compiled = precompile_outliner(&wasm).expect("it compiles");
    let compiled = Packed::without_base(pack_component(&compiled, &[]).expect("memory is there").leak());
    let name = "outline_python";
    let bounds = OutlineBounds {
        wall: Duration::from_millis(500),
        ..OutlineBounds::default()
    };
    bounded(Box::leak(Box::new([EmbeddedOutliner { name, compiled }])), bounds)
}

#[test]
fn a_component_that_lies_crashes_spins_or_floods_is_believed_nothing() {
    let outliners = liar();
    for attack in [
        "nothing",
        "beyond",
        "backwards",
        "line",
        "many",
        "names",
        "deep",
        "spin",
        "sleep",
        "memory",
        "trap",
        "files",
        "flood",
        &format!("imports{}", "s".repeat(500)),
    ] {
        assert_eq!(outliners.outline("a.py", attack), None, "{attack}");
        let honest = outliners
            .outline("a.py", "honest")
            .expect("each file is read in a fresh instance");
        let names: Vec<&str> = honest.definitions("honest").map(|(name, _)| name).collect();
        assert_eq!(names, ["honest"], "after {attack}");
    }
}

#[test]
fn a_component_keeps_nothing_from_one_file_to_the_next() {
    let outliners = liar();
    for _ in 0..2 {
        let outline = outliners
            .outline("a.py", "once")
            .expect("it has not been called before");
        assert_eq!(outline.definitions("once").count(), 1);
    }
}

mod details;
mod more;

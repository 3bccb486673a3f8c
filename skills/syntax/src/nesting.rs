//! Measures the nesting of a source before it is parsed.
//!
//! The parser, the walks over its tree and dropping the tree are recursive, and a component has a stack of half a
//! megabyte: a file with ten thousand brackets would abort the call. So the tokens are examined first.

use ruff_python_ast::token::TokenKind;
use ruff_python_parser::{Mode, lexer};

/// Limit for the depth: 125 nested brackets, or a sum of two thousand names. Python itself accepts at most 200 open
/// brackets and 100 levels of indentation.
const DEPTH_MAX: usize = 2000;
/// Weight of a bracket, of a block, and of a prefix operator.
const NEST: usize = 16;
/// Weight of an operator that may bind closer than the previous one.
const CLIMB: usize = 4;
/// Number of precedence levels. Further operators of an expression make its tree deeper, but not the recursion of the
/// parser.
const CLIMBS_MAX: usize = 12;

/// True if parsing the source might overflow the stack.
pub(crate) fn is_too_deep(text: &str) -> bool {
    // Depth of the present position: enclosing brackets that are closed later, and preceding operators.
    let mut depth = block_depth(text) * NEST;
    let mut lexer = lexer::lex(text, Mode::Module);
    let mut outer: Vec<Bracket> = Vec::new();
    let mut inner = Bracket::default();
    let mut previous = TokenKind::Newline;
    while depth <= DEPTH_MAX {
        let kind = lexer.next_token();
        if kind == TokenKind::EndOfFile {
            return false;
        }
        if is_opening(kind) {
            depth += NEST;
            outer.push(std::mem::take(&mut inner));
        } else if is_closing(kind) {
            if let Some(around) = outer.pop() {
                let closed = std::mem::replace(&mut inner, around);
                depth -= NEST + closed.weight;
                inner.deepest_part = inner.deepest_part.max(closed.depth() + NEST);
            }
            // In the tree, a call or a subscript is above the expression before it.
            inner.weight += 1;
            depth += 1;
        } else if is_separator(kind) {
            depth -= inner.weight;
            inner.end_expression();
        } else {
            let weight = inner.weigh(kind, previous);
            inner.weight += weight;
            depth += weight;
        }
        if inner.depth() > DEPTH_MAX {
            return true;
        }
        previous = kind;
    }
    true
}

/// Depth of the content of a bracket, or of the top level.
#[derive(Default)]
struct Bracket {
    /// Weight of the operators of the present expression.
    weight: usize,
    /// Number of operators of the present expression.
    operators: usize,
    /// Depth of its deepest closed bracket.
    deepest_part: usize,
    /// Depth of the deepest earlier expression.
    deepest: usize,
}

impl Bracket {
    fn depth(&self) -> usize {
        self.deepest.max(self.weight + self.deepest_part)
    }

    fn end_expression(&mut self) {
        *self = Self {
            deepest: self.depth(),
            ..Self::default()
        };
    }

    fn weigh(&mut self, kind: TokenKind, previous: TokenKind) -> usize {
        use TokenKind::{Await, DoubleStar, Else, Lambda, Minus, Not, Plus, Star, Tilde, Yield};
        match kind {
            Await | DoubleStar | Else | Lambda | Tilde | Yield => NEST,
            Minus | Not | Plus | Star if !ends_operand(previous) => NEST,
            _ if is_infix(kind) => {
                self.operators += 1;
                if self.operators <= CLIMBS_MAX { CLIMB } else { 1 }
            }
            TokenKind::Dot => 1,
            _ => 0,
        }
    }
}

/// Levels of indentation, including continued lines and lines of strings: which lines begin a statement depends on
/// how the parser recovers from mistakes.
fn block_depth(text: &str) -> usize {
    let mut deepest = 0;
    let mut columns: Vec<usize> = Vec::new();
    for line in text.split(['\n', '\r']) {
        let column = line.len() - line.trim_start_matches([' ', '\t', '\u{c}']).len();
        if column == line.len() {
            continue;
        }
        columns.truncate(columns.partition_point(|&before| before < column));
        columns.push(column);
        deepest = deepest.max(columns.len() - 1);
    }
    deepest
}

fn is_opening(kind: TokenKind) -> bool {
    use TokenKind::{FStringStart, Lbrace, Lpar, Lsqb, TStringStart};
    matches!(kind, Lpar | Lsqb | Lbrace | FStringStart | TStringStart)
}

fn is_closing(kind: TokenKind) -> bool {
    use TokenKind::{FStringEnd, Rbrace, Rpar, Rsqb, TStringEnd};
    matches!(kind, Rpar | Rsqb | Rbrace | FStringEnd | TStringEnd)
}

/// True for tokens that end an expression, including keywords of statements, in case a bracket is not closed.
fn is_separator(kind: TokenKind) -> bool {
    use TokenKind::{
        Assert, Break, Class, Comma, Continue, Def, Del, Equal, Except, Finally, Global, Import, Newline, Nonlocal,
        Pass, Raise, Return, Semi, Try, While, With,
    };
    matches!(
        kind,
        Assert
            | Break
            | Class
            | Comma
            | Continue
            | Def
            | Del
            | Equal
            | Except
            | Finally
            | Global
            | Import
            | Newline
            | Nonlocal
            | Pass
            | Raise
            | Return
            | Semi
            | Try
            | While
            | With
    )
}

/// True for a token after which `-` is binary.
fn ends_operand(kind: TokenKind) -> bool {
    use TokenKind::{Complex, Ellipsis, False, Float, Int, Name, None, String, True};
    is_closing(kind)
        || kind.is_soft_keyword()
        || matches!(
            kind,
            Complex | Ellipsis | False | Float | Int | Name | None | String | True
        )
}

fn is_infix(kind: TokenKind) -> bool {
    use TokenKind::{And, ColonEqual, EqEqual, Greater, GreaterEqual, If, In, Is, Less, LessEqual, Not, NotEqual, Or};
    kind.as_binary_operator().is_some()
        || matches!(
            kind,
            And | ColonEqual | EqEqual | Greater | GreaterEqual | If | In | Is | Less | LessEqual | Not | NotEqual | Or
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_that_people_write_is_not_too_deep() {
        let indented: String = (0..90).map(|level| format!("{}if x:\n", " ".repeat(level))).collect();
        for source in [
            format!("x = {}1{}\n", "(".repeat(100), ")".repeat(100)),
            format!("x = {}\n", ["'text'"; 1500].join(" +\n    ")),
            format!("x = y{}\n", ".filter(a=1)".repeat(900)),
            format!("x = [{}]\n", "f(a - b, -c), ".repeat(10_000)),
            format!("x = (1 +\n{}", "def f():\n    return a.b(1)\n\n".repeat(10_000)),
            format!("if a: pass\n{}", "elif b: pass\n".repeat(10_000)),
            format!("{indented}{}pass\n", " ".repeat(90)),
        ] {
            assert!(!is_too_deep(&source), "{}", &source[..60]);
        }
    }

    #[test]
    fn endless_nesting_is_too_deep() {
        let indented: String = (0..1000).map(|level| format!("{}if x:\n", " ".repeat(level))).collect();
        for source in [
            format!("x = {}1{}\n", "(".repeat(10_000), ")".repeat(10_000)),
            "[".repeat(10_000),
            format!("x = {}\n", "f(".repeat(10_000)),
            format!("x = y{}\n", ".a".repeat(10_000)),
            format!("x = y{}\n", "()".repeat(10_000)),
            format!("x = ((y){})\n", "[0]".repeat(10_000)),
            format!("x = {}1\n", "- ".repeat(10_000)),
            format!("x = {}1\n", "not ".repeat(10_000)),
            format!("x = {}1\n", "lambda: ".repeat(10_000)),
            format!("x = 1{}\n", " + 1".repeat(10_000)),
            format!("x = 1{}\n", " ** 1".repeat(10_000)),
            format!("x = 1{}\n", " if 1 else 1".repeat(10_000)),
            format!("x = {}", "f'{".repeat(10_000)),
            format!("({indented}"),
            indented,
        ] {
            assert!(is_too_deep(&source), "{}", &source[..60.min(source.len())]);
        }
    }
}

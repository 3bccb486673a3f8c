//! Literal arguments of a call, without executing anything, for example of `setup(install_requires=[…])`.

use ruff_python_ast::visitor::source_order::{SourceOrderVisitor, TraversalSignal};
use ruff_python_ast::{AnyNodeRef, Expr, ExprCall, ExprDict, Stmt};
use ruff_text_size::Ranged;

use crate::Module;

/// Limit for the nesting of values; a manifest has two levels.
const DEPTH_MAX: usize = 4;

/// A value, as far as it is literal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Literal {
    /// A string without its quotes, and the line where it begins.
    Text(String, usize),
    /// A list or a tuple.
    List(Vec<Literal>),
    /// A dictionary with string keys.
    Map(Vec<(String, Literal)>),
    /// A value that would have to be computed, and its line.
    Computed(usize),
}

/// A keyword argument of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argument {
    /// Name of the keyword.
    pub name: String,
    /// Value of the argument. A name to which the module assigns a literal is resolved.
    pub value: Literal,
}

impl Module<'_> {
    /// Keyword arguments of all calls of `function`, also as `module.function`.
    pub fn keyword_arguments(&self, function: &str) -> Vec<Argument> {
        let mut calls = CallsOf {
            function,
            found: Vec::new(),
        };
        calls.visit_body(self.statements());
        let keywords = calls.found.iter().flat_map(|call| &call.arguments.keywords);
        keywords
            .filter_map(|keyword| {
                Some(Argument {
                    name: keyword.arg.as_ref()?.to_string(),
                    value: self.literal(&keyword.value, DEPTH_MAX),
                })
            })
            .collect()
    }

    fn literal(&self, value: &Expr, depth: usize) -> Literal {
        let line = self.line(value.start());
        let Some(depth) = depth.checked_sub(1) else {
            return Literal::Computed(line);
        };
        let members = |members: &[Expr]| members.iter().map(|member| self.literal(member, depth)).collect();
        match value {
            Expr::StringLiteral(string) => {
                let text = string.value.iter().map(|part| self.content(part)).collect();
                Literal::Text(text, line)
            }
            Expr::List(list) => Literal::List(members(&list.elts)),
            Expr::Tuple(tuple) => Literal::List(members(&tuple.elts)),
            Expr::Set(set) => Literal::List(members(&set.elts)),
            Expr::Dict(dictionary) => self.map(dictionary, depth),
            Expr::Name(name) => self
                .assigned(&name.id)
                .map_or(Literal::Computed(line), |value| self.literal(value, depth)),
            _ => Literal::Computed(line),
        }
    }

    fn map(&self, dictionary: &ExprDict, depth: usize) -> Literal {
        let pairs = dictionary.items.iter().filter_map(|item| {
            let Expr::StringLiteral(key) = item.key.as_ref()? else {
                return None;
            };
            let key = key.value.iter().map(|part| self.content(part)).collect();
            Some((key, self.literal(&item.value, depth)))
        });
        Literal::Map(pairs.collect())
    }

    /// The last value that the body of the module assigns to a name.
    fn assigned(&self, name: &str) -> Option<&Expr> {
        let is_name = |target: &Expr| matches!(target, Expr::Name(target) if target.id == name);
        self.statements().iter().rev().find_map(|statement| match statement {
            Stmt::Assign(assign) if assign.targets.iter().any(is_name) => Some(&*assign.value),
            Stmt::AnnAssign(assign) if is_name(&assign.target) => assign.value.as_deref(),
            _ => None,
        })
    }
}

/// Collects the calls of a function, without calls in its arguments.
struct CallsOf<'a, 'name> {
    function: &'name str,
    found: Vec<&'a ExprCall>,
}

impl<'a> SourceOrderVisitor<'a> for CallsOf<'a, '_> {
    fn enter_node(&mut self, node: AnyNodeRef<'a>) -> TraversalSignal {
        if let AnyNodeRef::ExprCall(call) = node
            && called_name(call) == Some(self.function)
        {
            self.found.push(call);
            return TraversalSignal::Skip;
        }
        TraversalSignal::Traverse
    }
}

fn called_name(call: &ExprCall) -> Option<&str> {
    match &*call.func {
        Expr::Name(name) => Some(&name.id),
        Expr::Attribute(attribute) => Some(&attribute.attr),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_out_is_read_and_the_rest_is_not_guessed() {
        let source = b"from setuptools import setup\nREQUIRES = [\n    'a>=1',  # why\n    'b'\n]\nsetuptools.setup(\n    \
            name='demo',\n    version=read(),\n    install_requires=REQUIRES,\n    extras_require={'x': ['c' '>=2', f'{d}']},\n)\n";
        let module = Module::parse(source).expect("it is short");
        let text = |text: &str, line| Literal::Text(text.to_owned(), line);
        let argument = |name: &str, value| Argument {
            name: name.to_owned(),
            value,
        };
        assert_eq!(
            module.keyword_arguments("setup"),
            [
                argument("name", text("demo", 7)),
                argument("version", Literal::Computed(8)),
                argument("install_requires", Literal::List(vec![text("a>=1", 3), text("b", 4)])),
                argument(
                    "extras_require",
                    Literal::Map(vec![(
                        "x".to_owned(),
                        Literal::List(vec![text("c>=2", 10), Literal::Computed(10)])
                    )])
                ),
            ]
        );
    }

    #[test]
    fn names_that_stand_for_themselves_end() {
        let module = Module::parse(b"A = A\nsetup(install_requires=A)\n").expect("it is short");
        assert_eq!(module.keyword_arguments("setup")[0].value, Literal::Computed(1));
    }
}

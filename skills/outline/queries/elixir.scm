; Begun from tree-sitter-elixir's tags.scm: a definition is a call.
(comment) @comment
(do_block) @body

(call target: (identifier) @target (arguments (alias) @name) (#any-of? @target "defmodule" "defprotocol")) @definition.type
(call target: (identifier) @target (arguments (alias) @name) (#any-of? @target "defimpl")) @scope.type
(call target: (identifier) @target (arguments (identifier) @name) (#any-of? @target "def" "defp" "defmacro" "defmacrop" "defdelegate" "defguard" "defguardp")) @definition.function
(call target: (identifier) @target (arguments (call target: (identifier) @name)) (#any-of? @target "def" "defp" "defmacro" "defmacrop" "defdelegate" "defguard" "defguardp")) @definition.function
(call target: (identifier) @target (arguments (binary_operator left: (call target: (identifier) @name))) (#any-of? @target "def" "defp" "defmacro" "defmacrop" "defguard" "defguardp")) @definition.function
(anonymous_function) @scope.function

(call target: (identifier) @target (arguments (alias) @name) (#any-of? @target "alias" "import" "require" "use")) @reference.import
(call target: (identifier) @name (#any-of? @name "def" "defp" "defmacro" "defmacrop" "defmodule" "defprotocol" "defimpl" "defdelegate" "defguard" "defguardp" "defstruct" "defexception" "if" "case" "cond" "unless" "for" "with" "alias" "import" "require" "use" "quote" "unquote" "raise")) @reference.name
(unary_operator operand: (call target: (identifier) @name)) @reference.attribute
(unary_operator operand: (identifier) @name) @reference.attribute
(call target: (identifier) @name) @reference.call
(call target: (dot right: (identifier) @name)) @reference.call
(binary_operator left: (_) right: (identifier) @name) @reference.name
(dot right: (identifier) @name) @reference.attribute
(alias) @name @reference.type
(identifier) @name @reference.name

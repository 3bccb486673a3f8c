; Begun from tree-sitter-lua's tags.scm.
(comment) @comment
(block) @body

(function_declaration name: (identifier) @name) @definition.function
(function_declaration name: (dot_index_expression field: (identifier) @name)) @definition.function
(function_declaration name: (method_index_expression method: (identifier) @name)) @definition.method
(function_declaration name: (dot_index_expression table: (identifier) @name)) @owner
(function_declaration name: (method_index_expression table: (identifier) @name)) @owner
(field name: (identifier) @name value: (function_definition)) @definition.function
(variable_declaration (assignment_statement (variable_list name: (identifier) @name) (expression_list value: (function_definition)))) @definition.function
; `local utils = require("utils")` is an import, and `local split = utils.split` takes a name from a module.
(variable_declaration (assignment_statement (variable_list name: (identifier) @name) (expression_list value: (function_call name: (identifier) @function))) (#any-of? @function "require")) @reference.import
(variable_declaration (assignment_statement (variable_list name: (identifier) @name) (expression_list value: (dot_index_expression)))) @reference.import
(variable_declaration (assignment_statement (variable_list name: (identifier) @name))) @definition.value
(variable_declaration (variable_list name: (identifier) @name)) @definition.value
(assignment_statement (variable_list name: (dot_index_expression field: (identifier) @name)) (expression_list value: (function_definition))) @definition.function
(assignment_statement (variable_list name: (dot_index_expression table: (identifier) @name))) @owner
(assignment_statement (variable_list name: (dot_index_expression field: (identifier) @name))) @definition.value
(assignment_statement (variable_list name: (identifier) @name)) @definition.value
(function_definition) @scope.function

(function_call name: (identifier) @function arguments: (arguments (string (string_content) @name)) (#any-of? @function "require")) @import
(function_call name: (identifier) @name) @reference.call
(function_call name: (dot_index_expression field: (identifier) @name)) @reference.call
(function_call name: (method_index_expression method: (identifier) @name)) @reference.call
(dot_index_expression field: (identifier) @name) @reference.attribute
(field name: (identifier) @name) @reference.attribute
(identifier) @name @reference.name

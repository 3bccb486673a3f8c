; Begun from tree-sitter-python's tags.scm.
(comment) @comment
(decorated_definition) @wrapper
(expression_statement) @wrapper

(class_definition name: (identifier) @name) @definition.type
(function_definition name: (identifier) @name) @definition.function
(type_alias_statement left: (type (identifier) @name)) @definition.type
(assignment left: (identifier) @name) @definition.value
(assignment left: (pattern_list (identifier) @name)) @definition.value
(lambda) @scope.function

(import_statement name: (dotted_name (identifier) @name)) @reference.import
(import_statement name: (aliased_import name: (dotted_name (identifier) @name))) @reference.import
(import_from_statement name: (dotted_name (identifier) @name)) @reference.import
(import_from_statement name: (aliased_import name: (dotted_name (identifier) @name))) @reference.import
(import_from_statement module_name: (dotted_name (identifier) @name)) @reference.import
(import_from_statement module_name: (relative_import (dotted_name (identifier) @name))) @reference.import

(call function: (identifier) @name) @reference.call
(call function: (attribute attribute: (identifier) @name)) @reference.call
(decorator (identifier) @name) @reference.call
(decorator (attribute attribute: (identifier) @name)) @reference.call
(attribute attribute: (identifier) @name) @reference.attribute
(class_definition superclasses: (argument_list (identifier) @name)) @reference.type
(type (identifier) @name) @reference.type
(type (generic_type (identifier) @name)) @reference.type
(type (union_type (type (identifier) @name))) @reference.type
(type (binary_operator (identifier) @name)) @reference.type
(type (subscript value: (identifier) @name)) @reference.type
(keyword_argument name: (identifier) @name) @reference.attribute
(identifier) @name @reference.name

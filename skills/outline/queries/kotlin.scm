; The grammar ships no tags.scm.
(line_comment) @comment
(block_comment) @comment
(class_body) @body
(enum_class_body) @body
(function_body) @body

(class_declaration name: (identifier) @name) @definition.type
(object_declaration name: (identifier) @name) @definition.type
(companion_object name: (identifier) @name) @definition.type
(type_alias type: (identifier) @name) @definition.type
(function_declaration name: (identifier) @name) @definition.function
(function_declaration . (user_type (identifier) @name)) @owner
(property_declaration (variable_declaration (identifier) @name)) @definition.value
(class_parameter (identifier) @name) @definition.value
(enum_entry (identifier) @name) @definition.value
(lambda_literal) @scope.function
(anonymous_function) @scope.function

(import (qualified_identifier) @name) @import
(import (qualified_identifier (identifier) @name .)) @reference.import
(call_expression . (identifier) @name) @reference.call
(call_expression . (navigation_expression (identifier) @name .)) @reference.call
(constructor_invocation (user_type (identifier) @name)) @reference.call
(navigation_expression (identifier) @name .) @reference.attribute
(user_type (identifier) @name) @reference.type
(identifier) @name @reference.name

; JavaScript and TypeScript. Begun from the tags.scm of their grammars.
(comment) @comment
(decorator) @attribute
(export_statement) @wrapper
(expression_statement) @wrapper
(lexical_declaration) @wrapper
(variable_declaration) @wrapper
(statement_block) @body
(class_body) @body

(function_declaration name: (identifier) @name) @definition.function
(generator_function_declaration name: (identifier) @name) @definition.function
(method_definition name: (property_identifier) @name) @definition.function
(method_definition name: (private_property_identifier) @name) @definition.function
(class_declaration name: (identifier) @name) @definition.type
(variable_declarator name: (identifier) @name value: (arrow_function)) @definition.function
(variable_declarator name: (identifier) @name value: (function_expression)) @definition.function
(variable_declarator name: (identifier) @name value: (generator_function)) @definition.function
(variable_declarator name: (identifier) @name value: (class)) @definition.type
; A variable that holds a module, or a part of one, imports it.
(variable_declarator name: (identifier) @name value: (call_expression function: (identifier) @function) (#any-of? @function "require")) @reference.import
(variable_declarator name: (identifier) @name value: (member_expression object: (call_expression function: (identifier) @function)) (#any-of? @function "require")) @reference.import
(variable_declarator name: (identifier) @name value: (await_expression (call_expression function: (import)))) @reference.import
(variable_declarator name: (object_pattern (shorthand_property_identifier_pattern) @name) value: (call_expression function: (identifier) @function) (#any-of? @function "require")) @reference.import
(variable_declarator name: (object_pattern (shorthand_property_identifier_pattern) @name) value: (member_expression object: (call_expression function: (identifier) @function)) (#any-of? @function "require")) @reference.import
(variable_declarator name: (object_pattern (shorthand_property_identifier_pattern) @name) value: (await_expression (call_expression function: (import)))) @reference.import
(variable_declarator name: (object_pattern (pair_pattern key: (property_identifier) @name)) value: (call_expression function: (identifier) @function) (#any-of? @function "require")) @reference.import
(variable_declarator name: (object_pattern (pair_pattern key: (property_identifier) @name)) value: (member_expression object: (call_expression function: (identifier) @function)) (#any-of? @function "require")) @reference.import
(variable_declarator name: (object_pattern (pair_pattern key: (property_identifier) @name)) value: (await_expression (call_expression function: (import)))) @reference.import
(variable_declarator name: (object_pattern (pair_pattern value: (identifier) @name)) value: (call_expression function: (identifier) @function) (#any-of? @function "require")) @reference.import
(variable_declarator name: (object_pattern (pair_pattern value: (identifier) @name)) value: (member_expression object: (call_expression function: (identifier) @function)) (#any-of? @function "require")) @reference.import
(variable_declarator name: (object_pattern (pair_pattern value: (identifier) @name)) value: (await_expression (call_expression function: (import)))) @reference.import
(variable_declarator name: (identifier) @name value: (object)) @scope.type
(variable_declarator name: (identifier) @name) @definition.value
(pair key: (property_identifier) @name value: (arrow_function)) @definition.function
(pair key: (property_identifier) @name value: (function_expression)) @definition.function
(assignment_expression left: (member_expression object: (identifier) @object property: (property_identifier) @name) right: (class name: (_)) (#any-of? @object "module")) @reference.attribute
(assignment_expression left: (member_expression object: (identifier) @object property: (property_identifier) @name) right: (function_expression name: (_)) (#any-of? @object "module")) @reference.attribute
(assignment_expression left: (member_expression object: (identifier) @object) right: (function_expression name: (identifier) @name) (#any-of? @object "module")) @definition.function
(assignment_expression left: (member_expression object: (identifier) @object) right: (generator_function name: (identifier) @name) (#any-of? @object "module")) @definition.function
(assignment_expression left: (member_expression property: (property_identifier) @name) right: (arrow_function)) @definition.function
(assignment_expression left: (member_expression property: (property_identifier) @name) right: (function_expression)) @definition.function
(assignment_expression left: (member_expression property: (property_identifier) @name) right: (class)) @definition.type
(assignment_expression left: (member_expression object: (identifier) @object property: (property_identifier) @name) (#any-of? @object "exports")) @definition.value
(assignment_expression left: (member_expression object: (member_expression object: (identifier) @name property: (property_identifier) @property)) (#any-of? @property "prototype")) @owner
(arrow_function) @scope.function
(function_expression) @scope.function

(import_specifier (identifier) @name) @reference.import
(import_clause (identifier) @name) @reference.import
(namespace_import (identifier) @name) @reference.import
(export_specifier (identifier) @name) @reference.import
(namespace_export (identifier) @name) @reference.import
(call_expression function: (identifier) @name) @reference.call
(call_expression function: (member_expression property: (property_identifier) @name)) @reference.call
(call_expression function: (member_expression property: (private_property_identifier) @name)) @reference.call
(new_expression constructor: (identifier) @name) @reference.call
(new_expression constructor: (member_expression property: (property_identifier) @name)) @reference.call
(class_heritage (identifier) @name) @reference.type
(member_expression property: (property_identifier) @name) @reference.attribute
(member_expression property: (private_property_identifier) @name) @reference.attribute
(pair key: (property_identifier) @name) @reference.attribute
(shorthand_property_identifier) @name @reference.name
(shorthand_property_identifier_pattern) @name @reference.name
(identifier) @name @reference.name

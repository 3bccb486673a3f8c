; Begun from tree-sitter-ruby's tags.scm.
(comment) @comment
(body_statement) @body

(method name: (identifier) @name) @definition.function
(method name: (constant) @name) @definition.function
(method name: (operator) @name) @definition.function
(method name: (setter (identifier) @name)) @definition.function
(singleton_method name: (identifier) @name) @definition.method
(singleton_method name: (setter (identifier) @name)) @definition.method
(alias name: (identifier) @name) @definition.function
(class name: (constant) @name) @definition.type
(class name: (scope_resolution name: (constant) @name)) @definition.type
(module name: (constant) @name) @definition.module
(module name: (scope_resolution name: (constant) @name)) @definition.module
(assignment left: (constant) @name) @definition.value
(call method: (identifier) @method arguments: (argument_list (simple_symbol) @name) (#any-of? @method "attr_reader" "attr_writer" "attr_accessor" "define_method")) @definition.value

(call method: (identifier) @method arguments: (argument_list (string (string_content) @name)) (#any-of? @method "require_relative" "require" "load")) @import
(call method: (identifier) @name) @reference.call
(call method: (constant) @name) @reference.call
(superclass (constant) @name) @reference.type
(superclass (scope_resolution name: (constant) @name)) @reference.type
(scope_resolution name: (constant) @name) @reference.type
(constant) @name @reference.type
(identifier) @name @reference.name
(instance_variable) @name @reference.attribute

; Nodes that C's grammar does not have. Begun from tree-sitter-cpp's tags.scm.
(template_declaration) @wrapper
(declaration_list) @body

(function_definition declarator: (function_declarator declarator: (field_identifier) @name)) @definition.function
(function_definition declarator: (pointer_declarator declarator: (function_declarator declarator: (field_identifier) @name))) @definition.function
(function_definition declarator: (reference_declarator (function_declarator declarator: (field_identifier) @name))) @definition.function
(function_definition declarator: (reference_declarator (function_declarator declarator: (identifier) @name))) @definition.function
(function_definition declarator: (function_declarator declarator: (destructor_name (identifier) @name))) @definition.function
(function_definition declarator: (function_declarator declarator: (qualified_identifier name: (identifier) @name))) @definition.function
(function_definition declarator: (function_declarator declarator: (qualified_identifier name: (destructor_name (identifier) @name)))) @definition.function
(function_definition declarator: (function_declarator declarator: (qualified_identifier name: (qualified_identifier name: (identifier) @name)))) @definition.function
(function_definition declarator: (pointer_declarator declarator: (function_declarator declarator: (qualified_identifier name: (identifier) @name)))) @definition.function
(function_definition declarator: (reference_declarator (function_declarator declarator: (qualified_identifier name: (identifier) @name)))) @definition.function
(function_definition declarator: (function_declarator declarator: (qualified_identifier scope: (namespace_identifier) @name))) @owner
(function_definition declarator: (function_declarator declarator: (qualified_identifier scope: (template_type name: (type_identifier) @name)))) @owner
(function_definition declarator: (function_declarator declarator: (qualified_identifier name: (qualified_identifier scope: (namespace_identifier) @name)))) @owner
(function_definition declarator: (_ (function_declarator declarator: (qualified_identifier scope: (namespace_identifier) @name)))) @owner
(function_definition declarator: (_ (function_declarator declarator: (qualified_identifier scope: (template_type name: (type_identifier) @name))))) @owner
(class_specifier name: (type_identifier) @name body: (_)) @definition.type
(class_specifier name: (template_type name: (type_identifier) @name) body: (_)) @definition.type
(struct_specifier name: (template_type name: (type_identifier) @name) body: (_)) @definition.type
(alias_declaration name: (type_identifier) @name) @definition.type
(concept_definition name: (identifier) @name) @definition.type
(namespace_definition name: (namespace_identifier) @name) @definition.module
(lambda_expression) @scope.function

(call_expression function: (qualified_identifier name: (identifier) @name)) @reference.call
(call_expression function: (qualified_identifier name: (qualified_identifier name: (identifier) @name))) @reference.call
(call_expression function: (template_function name: (identifier) @name)) @reference.call
(call_expression function: (qualified_identifier name: (template_function name: (identifier) @name))) @reference.call
(call_expression function: (field_expression field: (template_method name: (field_identifier) @name))) @reference.call
(new_expression type: (type_identifier) @name) @reference.call
(using_declaration (qualified_identifier name: (identifier) @name)) @reference.import
(namespace_identifier) @name @reference.name

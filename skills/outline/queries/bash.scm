; The grammar ships no tags.scm.
(comment) @comment

(function_definition name: (word) @name) @definition.function
(variable_assignment name: (variable_name) @name) @definition.value
(declaration_command (variable_assignment name: (variable_name) @name)) @definition.value

(command name: (command_name (word) @name)) @reference.call
(variable_name) @name @reference.name

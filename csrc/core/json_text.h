/* Raw strings of a document that has passed ro_json_validate; inner header
 * of the json_*.c files. Raw means as sent: quotes and escapes included.
 */
#ifndef RO_CORE_JSON_TEXT_H
#define RO_CORE_JSON_TEXT_H

#include "core/slice.h"

/* The byte behind the closing quote; ptr is behind the opening one. */
const char *ro_json_string_end(const char *ptr, const char *end);

/* Reads one byte or one escape (a surrogate pair is one) at *ptr, which is
 * not the closing quote, and moves on. Writes what it stands for in UTF-8;
 * returns how many bytes, 1 to 4. */
size_t ro_json_read_char(const char **ptr, char out[4]);

/* Whether two raw strings, given by the byte behind their opening quotes,
 * read the same. */
bool ro_json_same_text(const char *a, const char *b);

#endif

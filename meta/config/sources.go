package config

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
)

// The limits on a properties file.
const maxPropertyBytes = 1 << 20 // of one line, its continuations included

// Merge puts layers of properties together; later ones win. For a broker the order is: a properties file, KAFKA_*
// variables, flags. Presets and defaults are below them all.
func Merge(layers ...map[string]string) map[string]string {
	out := make(map[string]string)
	for _, l := range layers {
		maps.Copy(out, l)
	}
	return out
}

// ParseFlags reads KEY=VALUE settings; the value may be empty and may hold further equals signs. Of two settings of one
// key the later holds.
func ParseFlags(settings []string) (map[string]string, error) {
	out := make(map[string]string, len(settings))
	for _, s := range settings {
		key, v, ok := strings.Cut(s, "=")
		key = strings.TrimSpace(key)
		if !ok || key == "" {
			return nil, fmt.Errorf("setting %q isn't KEY=VALUE", s)
		}
		out[key] = v
	}
	return out, nil
}

// ParseEnvironment reads the KAFKA_* variables of an environment (NAME=VALUE each) as Apache Kafka's container image does:
// the rest of the name in lower case, ___ for a dash, __ for an underscore, _ for a dot. Variables that name no key, such
// as those that Kubernetes sets for a service called kafka, are returned by name and do nothing.
func (t *Table) ParseEnvironment(environment []string) (properties map[string]string, ignored []string) {
	properties = make(map[string]string)
	for _, e := range environment {
		name, v, _ := strings.Cut(e, "=")
		rest, ok := strings.CutPrefix(name, "KAFKA_")
		if !ok || rest == "" {
			continue
		}
		key := variableKey(rest)
		if t.lookup(key) == nil {
			ignored = append(ignored, name)
			continue
		}
		properties[key] = v
	}
	slices.Sort(ignored)
	return properties, ignored
}

// variableKey turns the rest of a variable's name into a key.
func variableKey(rest string) string {
	var b strings.Builder
	for i := 0; i < len(rest); {
		run := len(rest[i:]) - len(strings.TrimLeft(rest[i:], "_"))
		switch {
		case run >= 3:
			b.WriteByte('-')
			i += 3
		case run == 2:
			b.WriteByte('_')
			i += 2
		case run == 1:
			b.WriteByte('.')
			i++
		default:
			b.WriteString(strings.ToLower(rest[i : i+1]))
			i++
		}
	}
	return b.String()
}

// ParseProperties reads a Java properties file, such as server.properties: comments begin with # or !, a key ends at =, : or
// white space, a backslash at the end of a line continues it, \t \n \r \f, \u with four hexadecimal digits, and \ before any
// other character are escapes. Of two settings of one key the later holds. Errors name the line.
func ParseProperties(r io.Reader) (map[string]string, error) {
	out := make(map[string]string)
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxPropertyBytes)
	for number := 1; lines.Scan(); number++ {
		first := number
		line := strings.TrimLeft(strings.TrimSuffix(lines.Text(), "\r"), " \t\f")
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		for continued(line) {
			line = line[:len(line)-1]
			if !lines.Scan() {
				break
			}
			number++
			line += strings.TrimLeft(strings.TrimSuffix(lines.Text(), "\r"), " \t\f")
			if len(line) > maxPropertyBytes {
				return nil, fmt.Errorf("line %d: longer than %d bytes", first, maxPropertyBytes)
			}
		}
		key, v := splitProperty(line)
		var err error
		if key, err = unescape(key); err == nil {
			v, err = unescape(v)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", first, err)
		}
		out[key] = v
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read properties: %w", err)
	}
	return out, nil
}

// continued says whether a line ends in an odd number of backslashes.
func continued(line string) bool {
	return (len(line)-len(strings.TrimRight(line, `\`)))%2 == 1
}

// splitProperty cuts a line at the first separator that isn't escaped.
func splitProperty(line string) (key, v string) {
	end := len(line)
	for i := 0; i < len(line); i++ {
		if line[i] == '\\' {
			i++
			continue
		}
		if strings.IndexByte("=: \t\f", line[i]) >= 0 {
			end = i
			break
		}
	}
	v = strings.TrimLeft(line[end:], " \t\f")
	if v != "" && (v[0] == '=' || v[0] == ':') {
		v = strings.TrimLeft(v[1:], " \t\f")
	}
	return line[:end], v
}

// unescape resolves the escapes of a properties file.
func unescape(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		i++
		if i == len(s) {
			break
		}
		if s[i] != 'u' {
			b.WriteByte(plainEscape(s[i]))
			continue
		}
		r, n, err := unicodeEscape(s[i:])
		if err != nil {
			return "", err
		}
		b.WriteRune(r)
		i += n - 1
	}
	return b.String(), nil
}

// plainEscape is the character that a backslash and c stand for.
func plainEscape(c byte) byte {
	switch c {
	case 't':
		return '\t'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 'f':
		return '\f'
	default:
		return c
	}
}

// errUnicodeEscape is returned for an escape that isn't one.
var errUnicodeEscape = errors.New(`\u takes four hexadecimal digits`)

// unicodeEscape reads a u and four hexadecimal digits at the start of s, and the second half of a surrogate pair after them. It
// returns how many bytes of s that took.
func unicodeEscape(s string) (r rune, n int, err error) {
	unit := func(s string) (rune, error) {
		if len(s) < 5 || s[0] != 'u' {
			return 0, errUnicodeEscape
		}
		u, perr := strconv.ParseUint(s[1:5], 16, 16)
		if perr != nil {
			return 0, fmt.Errorf("%w: %w", errUnicodeEscape, perr)
		}
		return rune(u), nil
	}
	if r, err = unit(s); err != nil {
		return 0, 0, err
	}
	if utf16.IsSurrogate(r) && len(s) > 6 && s[5] == '\\' {
		low, lowErr := unit(s[6:])
		if pair := utf16.DecodeRune(r, low); lowErr == nil && pair != '�' {
			return pair, 11, nil
		}
	}
	return r, 5, nil
}

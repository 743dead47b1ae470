package skerry_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/skerry-run/skerry"
)

// tail feeds data in pieces of size bytes and gives what a Result would hold.
func tail(limit int, data []byte, size int) (text, encoding string, omitted int64) {
	t := skerry.NewTail(limit)
	for c := range slices.Chunk(data, size) {
		t.Add(skerry.Chunk{Stream: skerry.Stdout, Data: c})
	}
	return t.Text()
}

// B043
func TestBinaryOutputBecomesTextThatSaysSo(t *testing.T) {
	text, encoding, omitted := tail(0, []byte("\x9f\x92ok"), 1)
	if text != "\uFFFD\uFFFDok" || encoding != skerry.EncodingLossy || omitted != 0 {
		t.Errorf("got %q, %s, %d omitted", text, encoding, omitted)
	}
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	if text, encoding, _ = tail(0, all, 7); !utf8.ValidString(text) || encoding != skerry.EncodingLossy {
		t.Errorf("every byte gave %q, %s", text, encoding)
	}
}

// B044
func TestRunesSurviveTheBordersOfChunks(t *testing.T) {
	const count = 90_000
	data := []byte(strings.Repeat("語", count))
	for _, size := range []int{1, 2, 3, 4096, 65536} {
		text, encoding, omitted := tail(0, data, size)
		if utf8.RuneCountInString(text) != count || strings.ContainsRune(text, utf8.RuneError) || encoding != skerry.EncodingUTF8 || omitted != 0 {
			t.Errorf("chunks of %d: %d runes, %s, %d omitted", size, utf8.RuneCountInString(text), encoding, omitted)
		}
	}
}

// B046
func TestTheLimitCountsBytesAndCutsBetweenRunes(t *testing.T) {
	for _, r := range []string{"a", "é", "漢", "😀"} {
		data := []byte(strings.Repeat(r, 40_000))
		for _, limit := range []int{1, 2, 3, 4, 5, 10, 49_999, 50_000, 50_001} {
			if limit >= len(data) {
				continue
			}
			for _, size := range []int{1, 3, 4096, len(data)} {
				text, encoding, omitted := tail(limit, data, size)
				if len(text) > limit || limit-len(text) > 2*(len(r)-1) {
					t.Fatalf("%s, limit %d, chunks of %d: %d bytes", r, limit, size, len(text))
				}
				if encoding != skerry.EncodingUTF8 || strings.Trim(text, r) != "" {
					t.Fatalf("%s, limit %d, chunks of %d: %s, %.20q", r, limit, size, encoding, text)
				}
				if int64(len(text))+omitted != int64(len(data)) {
					t.Fatalf("%s, limit %d: %d kept and %d omitted are not %d", r, limit, len(text), omitted, len(data))
				}
			}
		}
	}
}

func TestHeadAndTailAreKeptFourToSix(t *testing.T) {
	var data []byte
	for i := range 10_000 {
		data = fmt.Appendf(data, "%06d\n", i)
	}
	text, _, omitted := tail(700, data, 64)
	if text != string(data[:280])+string(data[len(data)-420:]) || omitted != int64(len(data)-700) {
		t.Errorf("kept %q, omitted %d", text, omitted)
	}
	if text, _, omitted = tail(len(data), data, 64); text != string(data) || omitted != 0 {
		t.Errorf("what just fits: %d bytes, %d omitted", len(text), omitted)
	}
}

// B047
func TestALongLineIsKept(t *testing.T) {
	data := "a\n" + strings.Repeat("x", 70_000) + "\nb\n"
	if text, _, omitted := tail(0, []byte(data), 4096); text != data || omitted != 0 {
		t.Errorf("%d bytes, %d omitted", len(text), omitted)
	}
}

// B048
func TestNoNewlineIsAddedOrLost(t *testing.T) {
	for _, data := range []string{"tail-only", "a\nb", "a\r\nb\r", "\n", ""} {
		if text, encoding, omitted := tail(0, []byte(data), 1+len(data)); text != data || encoding != skerry.EncodingUTF8 || omitted != 0 {
			t.Errorf("%q became %q, %s, %d omitted", data, text, encoding, omitted)
		}
	}
}

// B056
func TestControlCharactersAreReplaced(t *testing.T) {
	text, encoding, _ := tail(0, []byte("a\x00b\x1b[31mred\x1b[0m\t\r\n"), 3)
	if text != "a\uFFFDb\uFFFD[31mred\uFFFD[0m\t\r\n" || encoding != skerry.EncodingLossy {
		t.Errorf("got %q, %s", text, encoding)
	}
}

func TestReplacedBytesCountAsTheBytesTheyWere(t *testing.T) {
	data := bytes.Repeat([]byte{0xff}, 1000)
	text, encoding, omitted := tail(300, data, 100)
	if len(text) != 300 || encoding != skerry.EncodingLossy || omitted != 900 {
		t.Errorf("%d bytes of text stand for 100, but %d of 1000 are omitted", len(text), omitted)
	}
	if text, _, omitted = tail(1000, data, 100); len(text) > 1000 || omitted != int64(1000-len(text)/3) {
		t.Errorf("a stream within the limit: %d bytes of text, %d omitted", len(text), omitted)
	}
}

func TestGapsOfTheStreamAreOmitted(t *testing.T) {
	x := skerry.NewTail(100)
	x.Add(skerry.Chunk{Data: []byte("before")})
	x.Add(skerry.Chunk{Data: []byte("after"), Omitted: 1000, Offset: 1006})
	if text, _, omitted := x.Text(); text != "beforeafter" || omitted != 1000 || x.Total() != 1011 {
		t.Errorf("got %q, %d omitted of %d", text, omitted, x.Total())
	}
}

func FuzzTail(f *testing.F) {
	for _, s := range []string{"", "a", "語語語", "😀", "\xff\xfe", "a\x00b", "é\xc3", "\xf0\x9f\x98", "\uFFFD", strings.Repeat("漢\xff", 50)} {
		for _, limit := range []uint16{1, 2, 3, 7, 100} {
			f.Add([]byte(s), limit, uint8(1))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, limit uint16, size uint8) {
		limit, size = max(1, limit), max(1, size)
		text, encoding, omitted := tail(int(limit), data, int(size))
		if !utf8.ValidString(text) || len(text) > int(limit) {
			t.Fatalf("%d bytes with a limit of %d, valid %v", len(text), limit, utf8.ValidString(text))
		}
		kept := int64(len(data)) - omitted
		if omitted < 0 || kept < 0 || kept > int64(len(text)) {
			t.Fatalf("%d bytes of text, %d omitted of %d", len(text), omitted, len(data))
		}
		if encoding == skerry.EncodingUTF8 {
			if kept != int64(len(text)) {
				t.Fatalf("%d bytes of text, %d omitted of %d", len(text), omitted, len(data))
			}
			for h := 0; h <= len(text); h++ { // some beginning and some end of the stream
				if strings.HasPrefix(string(data), text[:h]) && strings.HasSuffix(string(data), text[h:]) {
					return
				}
			}
			t.Fatalf("%q is not the ends of %q", text, data)
		}
		if kept == int64(len(data)) && utf8.Valid(data) && !bytes.ContainsFunc(data, func(r rune) bool { return r < 0x20 }) {
			t.Fatalf("%q counts as lossy", data)
		}
		for _, r := range text {
			if r < 0x20 && r != '\t' && r != '\n' && r != '\r' {
				t.Fatalf("%q holds a control character", text)
			}
		}
	})
}

func TestEveryFieldOfAResultRoundTripsThroughJSON(t *testing.T) {
	var in skerry.Result
	fill(reflect.ValueOf(&in).Elem())
	b, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out skerry.Result
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&out); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(in, out) {
		t.Errorf("got  %+v\nwant %+v", out, in)
	}
}

// fill sets every field to something that is not its zero value.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		value := reflect.New(v.Type().Elem()).Elem()
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key"), value)
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(0.5)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		v.SetUint(7)
	default:
		v.SetInt(7)
	}
}

func TestSetErrorTakesWhatTheErrorDecides(t *testing.T) {
	code := 0
	r := skerry.Result{Outcome: skerry.Exited, ExitCode: &code, Signal: 9}
	r.SetError(fmt.Errorf("run: %w", skerry.Errorf(skerry.Invalid, "start", "no python3").WithHint("install it").WithOutcome(skerry.StartFailed)))
	if r.Outcome != skerry.StartFailed || r.ExitCode != nil || r.Signal != 0 || r.Hint != "install it" || r.Reason != "run: start: no python3" {
		t.Errorf("got %+v", r)
	}
	r.SetError(errors.New("the stream broke"))
	if r.Outcome != skerry.Lost || r.Hint != "" {
		t.Errorf("an unknown error gave %s", r.Outcome)
	}
}

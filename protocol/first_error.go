package protocol

import (
	"reflect"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// errorCodeField is what kmsg calls the error code of an answer or of an entry in it.
const errorCodeField = "ErrorCode"

// FirstError is the first error code in an answer: its own, else that of the first entry that has one; None if there is none.
func FirstError(body kmsg.Response) ErrorCode {
	places := errorPlaces()[body.Key()]
	if places == nil {
		return None
	}
	return places.first(reflect.ValueOf(body).Elem())
}

// codePlaces says where a structure has error codes.
type codePlaces struct {
	own    int // the field's index; -1 without one
	nested []nestedPlaces
}

// nestedPlaces is a field that is a list of structures with error codes, or such a structure.
type nestedPlaces struct {
	field  int
	places *codePlaces
}

// errorPlaces finds the places in the answers of all keys once. Reflection is for what all answers have in common; it costs the
// small ones less than a microsecond.
var errorPlaces = sync.OnceValue(func() map[int16]*codePlaces {
	all := make(map[int16]*codePlaces, len(apiTable))
	for i := range apiTable {
		if body := kmsg.ResponseForKey(apiTable[i].Key); body != nil {
			all[apiTable[i].Key] = placesIn(reflect.TypeOf(body).Elem())
		}
	}
	return all
})

// placesIn looks through a structure; nil if there is no error code anywhere in it.
func placesIn(t reflect.Type) *codePlaces {
	p := &codePlaces{own: -1}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Name == errorCodeField && f.Type.Kind() == reflect.Int16 {
			p.own = i
			continue
		}
		inner := f.Type
		if inner.Kind() == reflect.Slice {
			inner = inner.Elem()
		}
		if inner.Kind() != reflect.Struct {
			continue
		}
		if places := placesIn(inner); places != nil {
			p.nested = append(p.nested, nestedPlaces{i, places})
		}
	}
	if p.own < 0 && p.nested == nil {
		return nil
	}
	return p
}

// first returns the first code that is an error.
func (p *codePlaces) first(v reflect.Value) ErrorCode {
	if p.own >= 0 {
		if code := ErrorCode(v.Field(p.own).Int()); code != None {
			return code
		}
	}
	for _, n := range p.nested {
		f := v.Field(n.field)
		if f.Kind() != reflect.Slice {
			if code := n.places.first(f); code != None {
				return code
			}
			continue
		}
		for i := range f.Len() {
			if code := n.places.first(f.Index(i)); code != None {
				return code
			}
		}
	}
	return None
}

package group

import "fmt"

// CheckRecord says whether a record that the coordinator has stored under a key can be read.
func CheckRecord(key string, record []byte) error {
	_, part, err := splitKey(key)
	if err != nil {
		return err
	}
	switch {
	case part == "" && len(record) > 0 && record[0] == kindConsumer:
		_, err = decodeConsumer(record)
	case part == "":
		_, err = decodeClassic(record)
	case part == partMark:
		_, err = decodeMark(record)
	case part[:1] == partMember:
		_, err = decodeConsumerMember(record)
	case part[:1] == partTxn && len(part) == 9:
		_, err = decodeTxn(record)
	default:
		err = fmt.Errorf("%w: unknown part %q", errRecord, part)
	}
	return err
}

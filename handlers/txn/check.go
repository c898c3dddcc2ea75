package txn

// CheckRecord says whether a record that the coordinator has stored for a transactional id can be read.
func CheckRecord(_ string, record []byte) error {
	_, err := decode(record)
	return err
}

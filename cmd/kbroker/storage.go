package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/kbroker/kbroker"
)

// The exit statuses of the storage commands: exitOK when all is sound, exitDamaged when damage was found, and exitCannot
// when nothing could be found out.
const (
	exitDamaged = 1
	exitCannot  = 2
)

// storageCommand is what works on a data directory without a broker.
func storageCommand() *cobra.Command {
	return subcommand("storage", "Check, show and repair a data directory.", verifyCommand(), dumpCommand(), repairCommand())
}

// cannot is an error that kept a storage command from its work.
func cannot(err error) error {
	var misuse misuseError
	if err == nil || errors.As(err, &misuse) || errors.Is(err, errReported) {
		return err
	}
	return statusError{exitCannot, err}
}

func verifyCommand() *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use: "verify DIR", Short: "Read everything in a data directory and say what doesn't verify; changes nothing.",
		Long: "Reads logs and metadata of a data directory without a broker and says what doesn't verify. It changes nothing.\n" +
			"The exit status is 0 if all is sound, 1 if damage was found, 2 if it couldn't be found out.",
		Args: arguments(1, 1, "the data directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			report, err := kbroker.VerifyData(args[0])
			if report != nil {
				if printErr := printReport(cmd.OutOrStdout(), args[0], report, asJSON); err == nil {
					err = printErr
				}
			}
			if err != nil {
				return cannot(err)
			}
			return unlessSound(report)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "for programs")
	return c
}

// unlessSound is the error for what has damage.
func unlessSound(r *kbroker.DataReport) error {
	if r.Sound() {
		return nil
	}
	return statusError{exitDamaged, errReported}
}

// soundReport is a report with its verdict, for programs.
type soundReport struct {
	*kbroker.DataReport
	Sound bool `json:"sound"`
}

func newSoundReport(r *kbroker.DataReport) *soundReport {
	if r == nil {
		return nil
	}
	return &soundReport{r, r.Sound()}
}

func printReport(w io.Writer, dir string, r *kbroker.DataReport, asJSON bool) error {
	if asJSON {
		return printJSON(w, newSoundReport(r))
	}
	for _, f := range r.Findings {
		if _, err := fmt.Fprintln(w, f); err != nil {
			return err
		}
	}
	verdict := "sound"
	switch {
	case r.Repairable():
		verdict = "DAMAGED: `kbroker storage repair " + dir + "` says what can be done about it"
	case !r.Sound():
		verdict = "DAMAGED: the metadata store can't be repaired, what can be done is said above"
	}
	_, err := fmt.Fprintf(w, "%s, %s, %s, %s, %s: %s\n", count(r.Partitions, "partition"), count(r.Segments, "segment"),
		count(r.Batches, "batch"), count(r.Bytes, "byte"), count(r.Keys, "metadata key"), verdict)
	return err
}

func dumpCommand() *cobra.Command {
	o := kbroker.DumpOptions{Partition: -1}
	asJSON := false
	c := &cobra.Command{
		Use: "dump PATH", Short: "Show what is in a data directory, a partition's directory or one file.",
		Long: "Shows segments, batches, records, indexes, snapshots and leader epochs. PATH is a data directory, the directory of a\n" +
			"partition, or one file; a .log file may be one that Apache Kafka wrote.\n" +
			"The exit status is 0 if all of it verifies, 1 if something doesn't, 2 if it couldn't be read.",
		Args: arguments(1, 1, "a data directory, a partition's directory or a file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if kbroker.DataInUse(args[0]) {
				complain(cmd.ErrOrStderr(), "a broker is running on this: what it is writing now may look cut off")
			}
			problems, err := kbroker.DumpData(args[0], o, printer(cmd.OutOrStdout(), asJSON))
			if err == nil && problems > 0 {
				return statusError{exitDamaged, errReported}
			}
			return cannot(err)
		},
	}
	f := c.Flags()
	f.BoolVar(&o.Records, "records", false, "show the records in each batch")
	f.BoolVar(&o.Index, "index", false, "show the entries of the indexes")
	f.StringVar(&o.Topic, "topic", "", "only this `TOPIC` of a data directory")
	f.Int32Var(&o.Partition, "partition", -1, "only this partition `NUMBER`")
	f.BoolVar(&asJSON, "json", false, "one JSON object a line, for programs")
	return c
}

// printer writes items one after the other.
func printer(w io.Writer, asJSON bool) func(fmt.Stringer) error {
	e := newEncoder(w)
	return func(item fmt.Stringer) error {
		if asJSON {
			return e.Encode(item)
		}
		_, err := fmt.Fprintln(w, item)
		return err
	}
}

func repairCommand() *cobra.Command {
	apply, asJSON := false, false
	c := &cobra.Command{
		Use: "repair DIR", Short: "Say what can be done about damage, and with --apply do it.",
		Long: "Decides about damage that a start leaves alone, so that partitions take writes again and reads go on. Without --apply\n" +
			"it only says what it would do. What it takes away is kept below DIR/removed. The metadata store isn't repaired.\n" +
			"The exit status is 0 if there is nothing to do, or no more, 1 if there is, 2 if it couldn't do its work.",
		Args: arguments(1, 1, "the data directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			report, err := kbroker.RepairData(args[0], apply)
			if report != nil {
				if printErr := printRepair(cmd.OutOrStdout(), args[0], report, asJSON); err == nil {
					err = printErr
				}
			}
			switch {
			case err != nil:
				return cannot(err)
			case report.After != nil:
				return unlessSound(report.After)
			case len(report.Actions) > 0:
				return statusError{exitDamaged, errReported}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&apply, "apply", false, "do it")
	c.Flags().BoolVar(&asJSON, "json", false, "for programs")
	return c
}

func printRepair(w io.Writer, dir string, r *kbroker.RepairReport, asJSON bool) error {
	if asJSON {
		return printJSON(w, struct {
			*kbroker.RepairReport
			After *soundReport `json:"after,omitempty"`
		}{r, newSoundReport(r.After)})
	}
	lost, done := int64(0), 0
	for _, a := range r.Actions {
		lost += a.Lost
		if a.Does != "" {
			done++
		}
		if _, err := fmt.Fprintln(w, a); err != nil {
			return err
		}
	}
	left := ""
	if n := len(r.Actions) - done; n > 0 {
		left = fmt.Sprintf(", %s left as it is", count(n, "thing"))
	}
	var err error
	switch {
	case len(r.Actions) == 0:
		_, err = fmt.Fprintln(w, "there is nothing to repair")
	case !r.Applied:
		_, err = fmt.Fprintf(w, "%s to do, %s to give up%s; nothing was changed, --apply does it\n",
			count(done, "thing"), count(lost, "offset"), left)
	default:
		_, err = fmt.Fprintf(w, "%s done, %s given up%s\n", count(done, "thing"), count(lost, "offset"), left)
	}
	if err == nil && r.After != nil {
		err = printReport(w, dir, r.After, false)
	}
	return err
}

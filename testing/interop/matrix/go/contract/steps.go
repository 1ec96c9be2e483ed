package contract

import (
	"context"
	"regexp"
	"strings"
	"time"
)

// Settling is how long what is read may lag behind what was changed: a broker or the client itself may have it from before.
const Settling = 10 * time.Second

var reads = regexp.MustCompile("^(Describe|List|Metadata|OffsetFetch|Lag)")

// Step is one call of an administrator.
type Step struct {
	Name string
	Run  func(context.Context) error
}

// Steps runs them in order, and names them.
func Steps(ctx context.Context, steps []Step) (string, error) {
	var done []string
	for _, step := range steps {
		began := time.Now()
		err := step.Run(ctx)
		for err != nil && reads.MatchString(step.Name) && time.Since(began) < Settling {
			time.Sleep(50 * time.Millisecond)
			err = step.Run(ctx)
		}
		if err != nil {
			return "", Refused("%s: %w", step.Name, err)
		}
		done = append(done, step.Name)
	}
	return strings.Join(done, ", "), nil
}

// Check is the error, or one that shows what was found where it is not as it has to be.
func Check(err error, holds bool, found any) error {
	if err == nil && !holds {
		return Refused("found %+v", found)
	}
	return err
}

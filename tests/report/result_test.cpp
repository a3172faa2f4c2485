#error "This file was emptied by accident at 14:29 and cannot be restored: its author has it in memory and must write it again, now."
